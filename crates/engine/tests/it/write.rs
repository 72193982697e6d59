use crate::world::World;
use outlast_client::{At, Spec};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_make_a_write_happen_once() {
    let world = World::new().await;
    let info = world.run(Spec::shell("cat").with_input()).await;
    let process = world.client.process(info.session_id);
    assert_eq!(process.write("é".as_bytes(), At::End).await.unwrap().bytes_written, Some(2), "case 173");
    let written = process.write(b"abc", At::Byte(2)).await.unwrap();
    assert_eq!((written.bytes_written, written.next_offset), (Some(3), Some(5)));
    let again = process.write(b"abc", At::Byte(2)).await.unwrap();
    assert_eq!(again.next_offset, Some(5));
    assert_eq!(process.write(b"x", At::Byte(9)).await.unwrap_err().code(), "bad_offset");
    process.close().await.unwrap();
    assert_eq!(process.wait(None).await.unwrap().output, "éabc");
    assert_eq!(process.write(b"late", At::End).await.unwrap_err().status(), "already_exited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_who_write_without_offsets_both_get_through() {
    let world = World::new().await;
    let info = world.run(Spec::shell("cat").with_input()).await;
    let process = world.client.process(info.session_id);
    let writes: Vec<_> = (0..20)
        .map(|n| {
            let process = process.clone();
            tokio::spawn(async move { process.write(format!("{n}\n").as_bytes(), At::End).await })
        })
        .collect();
    for write in writes {
        write.await.unwrap().unwrap();
    }
    process.close().await.unwrap();
    let mut lines: Vec<u32> = process.wait(None).await.unwrap().output.lines().map(|l| l.parse().unwrap()).collect();
    lines.sort_unstable();
    assert_eq!(lines, (0..20).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_no_input_says_so() {
    let world = World::new().await;
    let process = world.sh("sleep 1000").await;
    for error in [process.write(b"x", At::End).await.unwrap_err(), process.close().await.unwrap_err()] {
        assert_eq!(error.code(), "no_input");
        assert_eq!(error.to_string(), "Process stdin not available (non-local backend or stdin closed)");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cases_18_21_and_171_a_terminal_has_a_size_and_an_end_of_input() {
    let world = World::new().await;
    let info = world.run(Spec::shell("stty size; cat").on_terminal()).await;
    assert!(info.pty && info.takes_input);
    let process = world.client.process(info.session_id);
    process.follow(outlast_client::From::Byte(0)).next().await.unwrap();
    world.client.resize(&process.id().to_string(), 40, 100).await.unwrap();
    process.submit(b"hello", At::End).await.unwrap();
    assert_eq!(process.close().await.unwrap().message.as_deref(), Some("EOF sent"));
    let end = process.wait(None).await.unwrap();
    assert_eq!(end.fate.exit_code, Some(Some(0)));
    assert_eq!(end.output, "30 120\nhello\nhello\n");
}
