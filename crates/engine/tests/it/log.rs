use crate::world::World;
use outlast_client::{Chunk, From, Page};

fn page(offset: Option<u64>, limit: Option<u64>) -> Page {
    let mut page = Page::default();
    (page.offset, page.limit) = (offset, limit);
    page
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cases_85_to_89_pages_by_line() {
    let world = World::new().await;
    let process = world.sh("seq 0 99").await;
    process.wait(None).await.unwrap();
    let tail = process.log(page(None, Some(10))).await.unwrap();
    assert_eq!((tail.total_lines, tail.first_line, tail.showing.as_str(), tail.at_end), (100, 90, "10 lines", true));
    assert!(tail.output.starts_with("90\n") && tail.output.ends_with("\n99"), "{}", tail.output);
    let middle = process.log(page(Some(10), Some(5))).await.unwrap();
    assert_eq!((middle.output.as_str(), middle.at_end), ("10\n11\n12\n13\n14", false));
    let next = process.log(Page::from_byte(middle.next_byte).limit(2)).await.unwrap();
    assert_eq!((next.output.as_str(), next.first_line), ("15\n16", 15));
    let head = process.log(page(Some(0), Some(1))).await.unwrap();
    assert_eq!(head.output, "0");
    let past = process.log(page(Some(1000), None)).await.unwrap();
    assert_eq!((past.output.as_str(), past.showing.as_str()), ("", "0 lines"));
    assert_eq!(process.log(page(None, Some(0))).await.unwrap_err().code(), "bad_request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_53_a_long_log_is_kept_and_shown_from_its_end() {
    let world = World::new().await;
    let process = world.sh("head -c 300000 /dev/zero | tr '\\0' x; echo; echo end").await;
    process.wait(None).await.unwrap();
    let whole = process.log(Page::default()).await.unwrap();
    // Cut at a line: the long one does not fit.
    assert_eq!((whole.output.as_str(), whole.output_cut, whole.first_line), ("end", Some(300_001), 1));
    let mut raw = Vec::new();
    let mut chunks = process.read(From::Byte(0));
    while let Some(chunk) = chunks.next().await.unwrap() {
        let Chunk::Bytes { bytes, .. } = chunk else { panic!("{chunk:?}") };
        raw.extend(bytes);
    }
    assert_eq!(raw.len(), 300_000 + 1 + 4);
    let head = process.log(page(Some(0), None)).await.unwrap();
    assert!(head.output_cut.is_some() && head.output.starts_with("xxx"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_83_a_preview_is_the_end_and_says_what_it_left_out() {
    let world = World::new().await;
    let process = world.sh("for i in $(seq 1000 1999); do echo $i; done").await;
    process.wait(None).await.unwrap();
    let info = process.poll().await.unwrap();
    let shown = info.output_preview.unwrap();
    assert_eq!((shown.len(), info.output_cut, info.output_bytes), (1000, Some(4000), 5000));
    assert!(shown.starts_with("1800\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_larger_than_is_kept_tells_its_gap() {
    let world = World::with(|c| c.log_tail_bytes = 4 << 20).await;
    let process = world.sh("seq 1 2500000").await;
    process.wait(None).await.unwrap();
    let info = process.poll().await.unwrap();
    assert_eq!(info.gaps.len(), 1, "{:?}", info.gaps);
    let page_of = process.log(page(Some(2_499_999), Some(5))).await.unwrap();
    assert_eq!((page_of.output.as_str(), page_of.total_lines, page_of.approximate), ("2500000", 2_500_000, false));
    let gone = process.log(page(Some(400_000), Some(1))).await.unwrap();
    assert!(gone.first_line > 400_000 && gone.lines_gone.is_some(), "{} {:?}", gone.first_line, gone.lines_gone);
    // Byte for byte: head, gap, tail, and every byte at its offset.
    let all: String = (1..=2_500_000).map(|n| format!("{n}\n")).collect();
    let (mut at, mut gaps) = (0u64, 0);
    let mut chunks = process.read(From::Byte(0));
    while let Some(chunk) = chunks.next().await.unwrap() {
        match chunk {
            Chunk::Bytes { at: from, bytes } => {
                assert_eq!(from, at);
                assert!(all.as_bytes()[at as usize..].starts_with(&bytes));
                at += bytes.len() as u64;
            }
            Chunk::Gap { from, to, .. } => {
                assert_eq!(from, at);
                at = to;
                gaps += 1;
            }
        }
    }
    assert_eq!((at as usize, gaps), (all.len(), 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_gets_every_byte_and_the_end() {
    let world = World::new().await;
    let process = world.sh("for i in 1 2 3 4 5; do echo $i; sleep 0.02; done; (sleep 0.1; echo late) &").await;
    let mut text = Vec::new();
    let mut chunks = process.follow(From::Byte(0));
    while let Some(chunk) = chunks.next().await.unwrap() {
        if let Chunk::Bytes { bytes, .. } = chunk {
            text.extend(bytes);
        }
    }
    assert!(chunks.closed());
    assert_eq!(String::from_utf8(text).unwrap(), "1\n2\n3\n4\n5\nlate\n");
}
