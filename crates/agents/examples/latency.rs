//! What it costs to have an agent run by the engine instead of as a child of the gateway: the time from the write of a line to the line that `cat` sends back.
//!
//! `cargo build --release -p outlast && cargo run --release -p outlast-agents --example latency [ROUNDS]`

use outlast_client::{At, Chunk, Client, Connect, From, Run, Spec, caller};
use outlast_testkit::product::Product;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// As long as a short message of the protocol.
const LINE_BYTES: usize = 200;

#[tokio::main]
async fn main() {
    let rounds = std::env::args().nth(1).map_or(2_000, |n| n.parse().expect("a number"));
    let line = [&[b'x'; LINE_BYTES - 1][..], b"\n"].concat();
    let product = Product::running();
    let client = Client::connect(&Connect::to(product.home().root)).await.expect("an engine");
    let here = caller(std::env::vars_os(), &product.work());

    let cat = client.run(Run::new(Spec::argv(["cat"]).with_input(), here)).await.expect("cat");
    let mut output = cat.follow(From::Byte(0));
    let (mut through_keepers, mut until_written, mut at, mut seen) = (Vec::new(), Vec::new(), 0, 0);
    for _ in 0..rounds {
        let began = Instant::now();
        // As the driver does: another task writes, and nothing waits for its answer.
        let (writer, bytes) = (cat.clone(), line.clone());
        let written = tokio::spawn(async move {
            writer.write(&bytes, At::Byte(at)).await.expect("a write");
            began.elapsed()
        });
        at += LINE_BYTES as u64;
        while seen < at {
            match output.next().await.expect("output").expect("more") {
                Chunk::Bytes { bytes, .. } => seen += bytes.len() as u64,
                Chunk::Gap { .. } => panic!("a gap"),
            }
        }
        through_keepers.push(began.elapsed());
        until_written.push(written.await.expect("a writer"));
    }

    let mut child = tokio::process::Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat");
    let (mut input, mut output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let mut over_pipes = Vec::new();
    for _ in 0..rounds {
        let began = Instant::now();
        input.write_all(&line).await.expect("a write");
        let mut back = [0; LINE_BYTES];
        output.read_exact(&mut back).await.expect("output");
        over_pipes.push(began.elapsed());
    }
    drop(input);
    child.wait().await.expect("an end");

    for (what, mut times) in [("through keepers", through_keepers), ("  its write answered", until_written), ("child pipes", over_pipes)] {
        times.sort();
        let part = |n: usize| micros(times[(times.len() * n / 100).min(times.len() - 1)]);
        println!("{what}: p50 {} µs, p90 {} µs, p99 {} µs", part(50), part(90), part(99));
    }
}

fn micros(time: Duration) -> u128 {
    time.as_micros()
}
