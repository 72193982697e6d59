//! A gateway that a service manager runs, which is played by the test.

use crate::support::Bench;
use outlast_client::TurnOutcome;
use outlast_testkit::product::{Product, kill_and_wait};
use std::process::Child;

/// Starts the service, and returns when it serves.
fn serve(bench: &Bench) -> Child {
    let child = bench.product().command(["gateway", "run", "--service"]).spawn().unwrap();
    // It would be another pid, had the engine or a client been first.
    assert_eq!(bench.pid(), child.id(), "{}", bench.log());
    assert_eq!(bench.word(), "service");
    child
}

#[test]
fn a_service_manager_starts_its_gateway_again_and_no_other_program_does() {
    let product = Product::new(env!("CARGO_BIN_EXE_outlast"));
    product.configure("[gateway]\ndrain_timeout_seconds = 0.2\n");
    let bench = Bench::stopped(product);
    let mut service = serve(&bench);
    let turn = bench.send("long", &bench.gated()).turn;
    bench.wait_for_prompts(1);
    let mut restart = bench.product().command(["gateway", "restart"]).spawn().unwrap();
    assert_eq!((service.wait().unwrap().code(), bench.word().as_str()), (Some(75), "service"));
    service = serve(&bench);
    assert!(restart.wait().unwrap().success());
    let prompts = bench.wait_for_prompts(2);
    assert!(prompts[1].contains("interrupted by a gateway restart"), "{prompts:?}");
    kill_and_wait(service.id()).unwrap();
    assert_eq!((service.wait().unwrap().code(), bench.word().as_str()), (None, "service"));
    service = serve(&bench);
    bench.open_gate();
    assert_eq!(bench.wait(turn).outcome, Some(TurnOutcome::Completed));
    assert_eq!(bench.product().call(["gateway", "stop"]).code, Some(0));
    assert_eq!((service.wait().unwrap().code(), bench.word().as_str()), (Some(0), "stopped"));
}
