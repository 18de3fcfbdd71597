//! Properties of instances, which are jobs with definitions in the ledger.

use super::{
    LedgerHarness,
    contender::SHORT,
    ledger_fixture::{LedgerFixture, Run},
    summary::summaries,
};
use lock_core::LockName;
use lock_ledger::{
    AddReply, AddRequest, AfterAttempt, ClaimReply, ClaimRequest, Definition, EndReply, HeartbeatRequest,
    Instance, InstanceDetail, Instances, InstancesFrom, JobCommand, JobId, LiveNode, MAX_INSTANCES_READ,
    PauseNote, Removal, RemoveReply, RunId, RunOutcome, RunRenewal,
};
use std::time::Duration;

/// A revision that no group has.
const UNKNOWN: u64 = u64::MAX;

/// An instance in a separate group, and its first definition.
pub(super) struct InstanceFixture {
    pub(super) ledger: LedgerFixture,
    pub(super) definition: Definition,
    pub(super) payload: String,
}

impl InstanceFixture {
    /// Creates a fixture whose instance is not added yet.
    pub(super) async fn new(h: &impl LedgerHarness, hint: &str) -> Self {
        let mut ledger = LedgerFixture::new(h, hint).await;
        ledger.job.name = LockName::new("import/tenant-7").expect("valid name");
        let definition =
            Definition { schedule: "* * * * * *".to_owned(), dst: "run_once first".to_owned(), once: None };
        Self { ledger, definition, payload: "{\"tenant\":7}".to_owned() }
    }

    /// Adds the instance, and waits until its first scheduled times are due.
    pub(super) async fn added(h: &impl LedgerHarness, hint: &str) -> Self {
        let mut fixture = Self::new(h, hint).await;
        assert_eq!(fixture.add().await, AddReply::Added);
        if let Some(begin) = fixture.ledger.watermark(0).await {
            fixture.ledger.begin = begin;
        }
        h.pass(Duration::from_millis(160)).await;
        fixture
    }

    pub(super) async fn add(&self) -> AddReply {
        self.add_as(&self.ledger.job.name).await
    }

    async fn add_as(&self, name: &LockName) -> AddReply {
        let job = JobId { group: self.ledger.job.group.clone(), name: name.clone() };
        let (definition, payload) = (self.definition.clone(), self.payload.clone());
        let request = AddRequest { job, definition, payload, added_by: "node".to_owned() };
        self.ledger.client().add(request).await.expect("ledger call failed").outcome
    }

    pub(super) async fn remove(&self, removal: Removal) -> RemoveReply {
        let job = self.ledger.job.clone();
        self.ledger.client().remove(job, removal).await.expect("ledger call failed").outcome
    }

    async fn read(&self, known: u64) -> Instances {
        self.read_from(InstancesFrom::Revision(known)).await
    }

    async fn read_from(&self, from: InstancesFrom) -> Instances {
        let group = self.ledger.job.group.clone();
        self.ledger.client().instances(group, from).await.expect("ledger call failed").outcome
    }

    async fn read_one(&self) -> Option<InstanceDetail> {
        self.ledger.client().instance(self.ledger.job.clone()).await.expect("ledger call failed").outcome
    }

    /// Reads all instances of a small group, and their revision.
    pub(super) async fn all(&self) -> (u64, Vec<Instance>) {
        match self.read(UNKNOWN).await {
            Instances::All { revision, instances, next: None } => (revision, instances),
            other => panic!("unexpected reply to an unknown revision: {other:?}"),
        }
    }

    /// Returns a claim planned with the current definition.
    pub(super) async fn request(&self, run: RunId) -> ClaimRequest {
        let (_, instances) = self.all().await;
        let of = instances.iter().find(|instance| instance.name == self.ledger.job.name);
        let definition = of.expect("the instance exists").revision;
        ClaimRequest { schedule: 0, definition, ..self.ledger.request(run) }
    }

    pub(super) async fn claim(&self, run: RunId) -> Run {
        self.ledger.granted(self.request(run).await).await
    }

    pub(super) async fn finish(&self, run: &Run) -> EndReply {
        self.ledger.end(run, RunOutcome::Succeeded, AfterAttempt::Finish).await
    }

    /// Checks that the store contains no data about the instance.
    pub(super) async fn assert_nothing_left(&self) {
        let ledger = &self.ledger;
        assert_eq!(ledger.watermark(0).await, None, "a watermark is left");
        assert_eq!(ledger.open_runs().await, [], "an open run is left");
        assert_eq!(ledger.history().await, [], "a history is left");
        assert_eq!(self.all().await.1, [], "a definition is left");
        assert_eq!(self.read_one().await, None, "a definition is left");
    }
}

/// Every node reads the definition, the adding node, and the revision.
pub async fn an_added_instance_is_read_by_all(h: &impl LedgerHarness) {
    let fixture = InstanceFixture::new(h, "instances").await;
    assert_eq!(fixture.all().await, (0, vec![]));
    assert_eq!(fixture.read(0).await, Instances::Unchanged);
    let sent = fixture.ledger.begin;
    assert_eq!(fixture.add().await, AddReply::Added);
    let (revision, instances) = fixture.all().await;
    let [Instance { name, definition, revision: of_one, added_by, added_at, .. }] = &instances[..] else {
        panic!("expected one instance: {instances:?}");
    };
    assert_eq!((name, definition), (&fixture.ledger.job.name, &fixture.definition));
    assert_eq!((added_by.as_str(), *of_one), ("node", revision));
    assert!(*added_at > sent && revision >= added_at.as_millis(), "{added_at:?}");
    let detail = InstanceDetail { instance: instances[0].clone(), payload: fixture.payload.clone() };
    assert_eq!(fixture.read_one().await, Some(detail));
    let another = h.another_ledger(&fixture.ledger.client).await;
    let node = LiveNode {
        id: *lock_core::backend::ProcessId::random().as_uuid(),
        name: String::new(),
        jobs: 0,
        room: 1,
        kinds: vec!["import".to_owned()],
        leading: false,
    };
    let group = fixture.ledger.job.group.clone();
    let request = HeartbeatRequest { group, node, lease: SHORT, known: 0, watermarks: vec![] };
    let heartbeat = another.heartbeat(request).await.expect("ledger call failed").outcome;
    assert_eq!(heartbeat.instances, revision, "a heartbeat must return the new revision");
}

/// The reply to an add may be lost, in which case the request is sent again.
pub async fn a_repeated_add_changes_nothing(h: &impl LedgerHarness) {
    let fixture = InstanceFixture::added(h, "repeated").await;
    let before = fixture.all().await;
    let claimed = fixture.claim(fixture.ledger.instant(1)).await;
    assert_eq!(fixture.add().await, AddReply::Unchanged);
    assert_eq!(fixture.all().await, before);
    assert_eq!(fixture.ledger.watermark(0).await, claimed.run.scheduled(), "the watermark must not change");
}

/// A claim from a node that has not read the new definition is refused.
pub async fn a_changed_definition_outdates_a_claim(h: &impl LedgerHarness) {
    let mut fixture = InstanceFixture::added(h, "outdated").await;
    let old = fixture.request(fixture.ledger.instant(2)).await;
    fixture.payload = "8".to_owned();
    assert_eq!(fixture.add().await, AddReply::Changed);
    assert_eq!(fixture.ledger.send(old.clone()).await, ClaimReply::Outdated);
    let unread = ClaimRequest { definition: 0, ..old.clone() };
    assert_eq!(fixture.ledger.send(unread).await, ClaimReply::Outdated);
    fixture.claim(old.run).await;
}

/// After the schedule changes, the old schedule's missed times stay missed. After only the payload
/// changes, missed times are still caught up.
pub async fn a_changed_schedule_starts_now_and_a_payload_does_not(h: &impl LedgerHarness) {
    let mut fixture = InstanceFixture::added(h, "changed").await;
    let before = fixture.ledger.watermark(0).await;
    fixture.payload = "8".to_owned();
    fixture.add().await;
    assert_eq!(fixture.ledger.watermark(0).await, before);
    fixture.definition.schedule = "@hourly".to_owned();
    fixture.add().await;
    let last = fixture.request(fixture.ledger.instant(100)).await;
    assert_eq!(fixture.ledger.send(last).await, ClaimReply::Superseded);
    fixture.definition.dst = "skip last".to_owned();
    let changed = fixture.ledger.watermark(0).await;
    h.pass(Duration::from_millis(5)).await;
    fixture.add().await;
    assert!(fixture.ledger.watermark(0).await > changed, "the DST policy is part of the schedule");
}

/// An instance that is added again starts at the time at which it is added.
pub async fn an_added_instance_never_runs_for_the_past(h: &impl LedgerHarness) {
    for removal in [Removal::KeepRecord, Removal::Forget] {
        let fixture = InstanceFixture::added(h, "returns").await;
        assert_eq!(fixture.remove(removal).await, RemoveReply::Removed);
        h.pass(Duration::from_millis(10)).await;
        assert_eq!(fixture.add().await, AddReply::Added);
        let request = fixture.request(fixture.ledger.instant(100)).await;
        assert_eq!(fixture.ledger.send(request).await, ClaimReply::Superseded, "{removal:?}");
    }
}

/// Without a definition, no run starts and no command is accepted. The history stays.
pub async fn a_removed_instance_is_not_claimed(h: &impl LedgerHarness) {
    let fixture = InstanceFixture::added(h, "removed").await;
    let run = fixture.claim(fixture.ledger.instant(1)).await;
    fixture.finish(&run).await;
    let request = fixture.request(fixture.ledger.instant(2)).await;
    let trigger = *lock_core::backend::ProcessId::random().as_uuid();
    fixture.ledger.command(JobCommand::Trigger { id: trigger, life: SHORT * 100, payload: None }).await;
    assert_eq!(fixture.remove(Removal::KeepRecord).await, RemoveReply::Removed);
    assert_eq!(
        fixture.remove(Removal::KeepRecord).await,
        RemoveReply::Unknown,
        "a repeat must change nothing"
    );
    assert_eq!(fixture.ledger.send(request.clone()).await, ClaimReply::Outdated);
    let triggered = ClaimRequest { run: RunId::Triggered(trigger), ..request };
    assert_eq!(fixture.ledger.send(triggered.clone()).await, ClaimReply::Outdated);
    let command = fixture
        .ledger
        .client()
        .command(fixture.ledger.job.clone(), JobCommand::Pause(PauseNote::default()))
        .await;
    assert_eq!(command.expect("ledger call failed").outcome, lock_ledger::CommandReply::Unregistered);
    assert_eq!(fixture.ledger.outcomes().await, [RunOutcome::Succeeded]);
    fixture.add().await;
    let definition = fixture.all().await.1[0].revision;
    let again = ClaimRequest { definition, ..triggered };
    assert_eq!(fixture.ledger.send(again).await, ClaimReply::Duplicate, "the trigger must be withdrawn");
}

/// A run that is open when its instance is removed continues, including its retries. The summary is
/// removed immediately.
pub async fn a_removed_instance_ends_its_open_run(h: &impl LedgerHarness) {
    let fixture = InstanceFixture::added(h, "open").await;
    let ended = fixture.claim(fixture.ledger.instant(1)).await;
    fixture.finish(&ended).await;
    assert_eq!(summaries(&fixture.ledger).await.len(), 1);
    let first = fixture.claim(fixture.ledger.instant(2)).await;
    fixture.remove(Removal::KeepRecord).await;
    assert_eq!(fixture.ledger.renew(&first, SHORT).await, RunRenewal::Renewed);
    fixture.ledger.end(&first, RunOutcome::Failed, AfterAttempt::Retry).await;
    let second = fixture.ledger.granted(fixture.ledger.after(&first, 1)).await;
    assert_eq!(fixture.finish(&second).await, EndReply::Recorded);
    let outcomes = [RunOutcome::Succeeded, RunOutcome::Failed, RunOutcome::Succeeded];
    assert_eq!(fixture.ledger.outcomes().await, outcomes);
    assert_eq!(summaries(&fixture.ledger).await, [], "the end of the run must not restore the summary");
}

/// Late requests do not restore a forgotten job.
pub async fn a_forgotten_instance_leaves_nothing(h: &impl LedgerHarness) {
    let fixture = InstanceFixture::added(h, "forgotten").await;
    let ended = fixture.claim(fixture.ledger.instant(1)).await;
    fixture.finish(&ended).await;
    let open = fixture.claim(fixture.ledger.instant(2)).await;
    let late = fixture.request(fixture.ledger.instant(3)).await;
    fixture.ledger.command(JobCommand::Pause(PauseNote::default())).await;
    let revision = fixture.ledger.revision().await;
    assert_eq!(fixture.remove(Removal::Forget).await, RemoveReply::Removed);
    assert!(fixture.ledger.revision().await > revision, "the controls must be removed");
    fixture.assert_nothing_left().await;
    assert_eq!(fixture.ledger.renew(&open, SHORT).await, RunRenewal::Gone);
    assert_eq!(fixture.finish(&open).await, EndReply::Gone);
    assert_eq!(fixture.ledger.send(late).await, ClaimReply::Unregistered);
    assert_eq!(fixture.ledger.send(fixture.ledger.after(&open, 9)).await, ClaimReply::Unregistered);
    assert_eq!(fixture.remove(Removal::Forget).await, RemoveReply::Unknown);
    fixture.assert_nothing_left().await;
    fixture.add().await;
    fixture.remove(Removal::KeepRecord).await;
    assert_eq!(
        fixture.remove(Removal::Forget).await,
        RemoveReply::Removed,
        "a removed instance must keep its record"
    );
    fixture.assert_nothing_left().await;
}

/// A read with an earlier revision returns only the changes since that revision.
pub async fn a_reader_learns_what_has_changed(h: &impl LedgerHarness) {
    let mut fixture = InstanceFixture::new(h, "changes").await;
    let names: Vec<_> = (10..90).map(|n| LockName::new(format!("import/{n}")).expect("valid name")).collect();
    for name in &names {
        assert_eq!(fixture.add_as(name).await, AddReply::Added);
    }
    let (known, all) = fixture.all().await;
    assert_eq!(
        all.iter().map(|instance| &instance.name).collect::<Vec<_>>(),
        names.iter().collect::<Vec<_>>()
    );
    assert_eq!(fixture.read(known).await, Instances::Unchanged);
    fixture.payload = "8".to_owned();
    for name in [&names[7], &names[3]] {
        assert_eq!(fixture.add_as(name).await, AddReply::Changed);
    }
    fixture.ledger.job.name = names[5].clone();
    fixture.remove(Removal::Forget).await;
    fixture.ledger.job.name = names[3].clone();
    fixture.remove(Removal::KeepRecord).await;
    let Instances::Changed { revision, instances, removed } = fixture.read(known).await else {
        panic!("expected a list of changes");
    };
    assert!(revision > known);
    assert_eq!(instances.iter().map(|of| &of.name).collect::<Vec<_>>(), [&names[7]]);
    assert_eq!(removed, [names[3].clone(), names[5].clone()]);
    let (revision_of_all, all) = fixture.all().await;
    assert_eq!((revision_of_all, all.len()), (revision, 78));
    let first = all[0].revision;
    let Instances::Changed { instances, .. } = fixture.read(first).await else {
        panic!("expected a list of all changes");
    };
    assert_eq!(instances.len(), 77, "expected only the changes after the first one");
}

/// Texts with quotes, line breaks and non-ASCII letters are stored unchanged, and so is the largest
/// payload.
pub async fn texts_of_every_shape_are_stored(h: &impl LedgerHarness) {
    let mut fixture = InstanceFixture::new(h, "texts").await;
    for payload in ["\"\\ \u{1}\n/{}[]\" ü 語 \u{1f980}".to_owned(), String::new(), "x".repeat(64 * 1024)] {
        fixture.payload = payload;
        fixture.add().await;
        let detail = fixture.read_one().await.expect("the instance exists");
        assert_eq!(
            (detail.payload, detail.instance.definition),
            (fixture.payload.clone(), fixture.definition.clone())
        );
    }
}

/// A large group is read page by page, in the order of the names, and without payloads.
pub async fn a_large_group_is_read_in_pages(h: &impl LedgerHarness) {
    let mut fixture = InstanceFixture::new(h, "pages").await;
    let total = MAX_INSTANCES_READ + 7;
    let names: Vec<_> =
        (0..total).map(|n| LockName::new(format!("import/{n:04}")).expect("valid name")).collect();
    for name in names.iter().rev() {
        assert_eq!(fixture.add_as(name).await, AddReply::Added);
    }
    let Instances::All { revision, instances: first, next: Some(next) } = fixture.read(UNKNOWN).await else {
        panic!("expected the first of several pages");
    };
    assert_eq!((first.len(), &next), (MAX_INSTANCES_READ, &names[MAX_INSTANCES_READ - 1]));
    fixture.ledger.job.name = names[3].clone();
    fixture.remove(Removal::KeepRecord).await;
    let page = fixture.read_from(InstancesFrom::Name(next)).await;
    let Instances::All { instances: second, next: None, .. } = page else {
        panic!("expected the last page: {page:?}");
    };
    let read: Vec<_> = first.iter().chain(&second).map(|instance| &instance.name).collect();
    assert_eq!(read, names.iter().collect::<Vec<_>>());
    let changes = fixture.read(revision).await;
    let Instances::Changed { instances, removed, .. } = changes else {
        panic!("expected the changes since the first page: {changes:?}");
    };
    assert_eq!((instances.len(), removed), (0, vec![names[3].clone()]));
}

/// Each claim of a run returns the instance's current payload, unless its trigger has one.
pub async fn a_claim_returns_the_instance_payload(h: &impl LedgerHarness) {
    let mut fixture = InstanceFixture::added(h, "instance-payload").await;
    let request = fixture.request(fixture.ledger.instant(1)).await;
    let (run, payload) = fixture.ledger.granted_with(request.clone()).await;
    assert_eq!(payload.as_deref(), Some("{\"tenant\":7}"));
    let (_, repeated) = fixture.ledger.granted_with(request).await;
    assert_eq!(repeated, payload, "a repeated claim must return it again");
    fixture.payload = "8".to_owned();
    fixture.add().await;
    fixture.ledger.end(&run, RunOutcome::Failed, AfterAttempt::Retry).await;
    let (again, payload) = fixture.ledger.granted_with(fixture.ledger.after(&run, 1)).await;
    assert_eq!(payload.as_deref(), Some("8"));
    fixture.finish(&again).await;
    for (given, expected) in [(Some("9"), "9"), (None, "8")] {
        let id = *lock_core::backend::ProcessId::random().as_uuid();
        let payload = given.map(str::to_owned);
        fixture.ledger.command(JobCommand::Trigger { id, life: SHORT * 100, payload }).await;
        let request = fixture.request(RunId::Triggered(id)).await;
        let (run, payload) = fixture.ledger.granted_with(request).await;
        assert_eq!(payload.as_deref(), Some(expected));
        fixture.finish(&run).await;
    }
    fixture.payload = String::new();
    fixture.add().await;
    let request = fixture.request(fixture.ledger.instant(2)).await;
    assert_eq!(fixture.ledger.granted_with(request).await.1, None, "an empty payload must count as none");
}
