//! Heartbeat properties: the list of live nodes, and the data returned with each heartbeat.

use super::{
    LedgerHarness,
    contender::{LONG, PAST_SHORT, SHORT},
    ledger_fixture::{LedgerFixture, SCHEDULE},
};
use lock_core::{LockName, backend::ProcessId};
use lock_ledger::{
    FleetControls, HeartbeatReply, HeartbeatRequest, JobCommand, LiveNode, PauseNote, Registration,
};
use std::time::Duration;

fn node(name: &str, room: u32) -> LiveNode {
    LiveNode {
        id: *ProcessId::random().as_uuid(),
        name: name.to_owned(),
        jobs: u64::MAX - 1,
        room,
        kinds: vec![],
        leading: false,
    }
}

async fn heartbeat(ledger: &LedgerFixture, node: &LiveNode, lease: Duration) -> Vec<LiveNode> {
    let request = request(ledger, node, lease);
    ledger.client().heartbeat(request).await.expect("ledger call failed").outcome.nodes
}

fn request(ledger: &LedgerFixture, node: &LiveNode, lease: Duration) -> HeartbeatRequest {
    let (group, node) = (ledger.job.group.clone(), node.clone());
    HeartbeatRequest { group, node, lease, known: 0, watermarks: Vec::new() }
}

/// A heartbeat returns the records of all live nodes. A later heartbeat replaces a node's record.
pub async fn a_heartbeat_lists_the_live_nodes(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "nodes").await;
    let mut nodes = [node("a \"quoted\" ü", 0), node("", u32::MAX), node("c", 7)];
    for node in &nodes {
        heartbeat(&ledger, node, LONG).await;
    }
    (nodes[2].room, nodes[2].leading) = (6, true);
    nodes[2].kinds = ["import", "a welcome"].map(str::to_owned).to_vec();
    let read = heartbeat(&ledger, &nodes[2], LONG).await;
    nodes.sort_by_key(|node| node.id);
    assert_eq!(read, nodes);
    let group = LedgerFixture::new(h, "nodes").await;
    assert_eq!(heartbeat(&group, &nodes[0], LONG).await, nodes[..1], "groups must not affect each other");
}

/// A node that dies or leaves is removed from the list.
pub async fn a_node_without_heartbeats_is_forgotten(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "dead").await;
    let [a, b, c] = ["a", "b", "c"].map(|name| node(name, 1));
    heartbeat(&ledger, &a, SHORT).await;
    heartbeat(&ledger, &b, LONG).await;
    let all = heartbeat(&ledger, &c, LONG).await;
    assert_eq!(all.len(), 3);
    assert_eq!(heartbeat(&ledger, &b, Duration::ZERO).await.len(), 2, "the node left immediately");
    h.pass(PAST_SHORT).await;
    assert_eq!(heartbeat(&ledger, &c, LONG).await, [c], "the node's lease has expired");
}

/// A heartbeat returns the same controls and watermarks as the separate requests for them.
pub async fn a_heartbeat_reads_controls_and_watermarks(h: &impl LedgerHarness) {
    let ledger = LedgerFixture::new(h, "reads").await;
    ledger.claim(3).await;
    let jobs = [&ledger.job.name, &LockName::new("unknown").expect("valid name")]
        .map(|job| Registration { job: job.clone(), schedule: SCHEDULE });
    let of = |known| HeartbeatRequest {
        known,
        watermarks: jobs.to_vec(),
        ..request(&ledger, &node("a", 1), LONG)
    };
    let read = async |known| ledger.client().heartbeat(of(known)).await.expect("ledger call failed").outcome;
    let HeartbeatReply { controls, watermarks, .. } = read(ledger.revision().await).await;
    assert_eq!((controls, watermarks), (FleetControls::Unchanged, vec![ledger.instant(3).scheduled(), None]));
    let paused = ledger.command(JobCommand::Pause(PauseNote::default())).await;
    let changed = ledger.client().controls(ledger.job.group.clone(), 0).await.expect("ledger call failed");
    assert_eq!(read(0).await.controls, changed.outcome);
    assert_eq!(read(paused).await.controls, FleetControls::Unchanged);
}
