//! Instances: jobs whose definitions are in the store.

use super::record::Record;
use crate::{
    backend::RedisBackend,
    client::Client,
    error::RequestError,
    keys::{GroupKeys, JobKeys},
    script,
    script_reply::ScriptReply,
};
use lock_core::{
    LockName,
    backend::{BackendError, Reply},
    clock::UtcTime,
};
use lock_ledger::{
    AddReply, AddRequest, GroupName, Instance, InstanceDetail, Instances, InstancesFrom, JobId,
    MAX_INSTANCE_PAYLOADS, MAX_INSTANCES, MAX_INSTANCES_READ, Removal, RemoveReply,
};

pub(super) async fn add<C: Client>(
    redis: &RedisBackend<C>,
    r: AddRequest,
) -> Result<Reply<AddReply>, BackendError> {
    // Reports a missing permission by its name. A process that adds instances may never register a job, which would
    // report it.
    redis.probe_ledger().await?;
    let (job, once) = (JobKeys::of(&r.job.group, &r.job.name).job, r.definition.once);
    let GroupKeys { group, instances, names, changes, payloads, .. } = GroupKeys::of(&r.job.group);
    let args = vec![
        r.job.name.to_string(),
        r.definition.schedule,
        r.definition.dst,
        r.payload,
        once.map_or_else(String::new, |once| once.at.as_millis().to_string()),
        once.map_or_else(String::new, |once| once.kept.as_millis().to_string()),
        r.added_by,
        MAX_INSTANCES.to_string(),
        MAX_INSTANCE_PAYLOADS.to_string(),
    ];
    let keys = vec![job, group, instances, changes, names, payloads];
    let reply = redis.run(&script::LEDGER_ADD, keys, args).await?;
    let outcome = match reply.word() {
        "added" => AddReply::Added,
        "changed" => AddReply::Changed,
        "unchanged" => AddReply::Unchanged,
        "already_run" => AddReply::AlreadyRun,
        "decided" => AddReply::Decided { up_to: UtcTime::from_millis(reply.number(0)?) },
        "full" => AddReply::Full,
        "too_large" => AddReply::PayloadsTooLarge,
        _ => return Err(reply.unexpected().into()),
    };
    Ok(Reply::new(reply.now, outcome))
}

pub(super) async fn remove<C: Client>(
    redis: &RedisBackend<C>,
    id: &JobId,
    removal: Removal,
) -> Result<Reply<RemoveReply>, BackendError> {
    let JobKeys { job, history } = JobKeys::of(&id.group, &id.name);
    let GroupKeys { group, instances, names, changes, open, summaries, payloads, .. } =
        GroupKeys::of(&id.group);
    let extent = match removal {
        Removal::KeepRecord => "keep",
        Removal::Forget => "forget",
    };
    let keys = vec![job, group, instances, changes, open, history, summaries, payloads, names];
    let args = vec![id.name.to_string(), extent.to_owned()];
    let reply = redis.run(&script::LEDGER_REMOVE, keys, args).await?;
    let outcome = match reply.word() {
        "removed" => RemoveReply::Removed,
        "unknown" => RemoveReply::Unknown,
        _ => return Err(reply.unexpected().into()),
    };
    Ok(Reply::new(reply.now, outcome))
}

pub(super) async fn read_one<C: Client>(
    redis: &RedisBackend<C>,
    id: &JobId,
) -> Result<Reply<Option<InstanceDetail>>, BackendError> {
    let GroupKeys { instances, payloads, .. } = GroupKeys::of(&id.group);
    let reply =
        redis.run(&script::LEDGER_INSTANCE, vec![instances, payloads], vec![id.name.to_string()]).await?;
    let outcome = match reply.word() {
        "found" => {
            let payload = reply.text(1)?.to_owned();
            let instance = Record::read(reply.text(0)?).and_then(|record| record.instance(id.name.clone()));
            instance.map(|instance| InstanceDetail { instance, payload })
        }
        "unknown" => None,
        _ => return Err(reply.unexpected().into()),
    };
    Ok(Reply::new(reply.now, outcome))
}

pub(super) async fn read<C: Client>(
    redis: &RedisBackend<C>,
    group: &GroupName,
    from: InstancesFrom,
) -> Result<Reply<Instances>, BackendError> {
    let GroupKeys { group, instances, names, changes, .. } = GroupKeys::of(group);
    let keys = vec![group, instances, changes, names];
    let (known, after) = match from {
        InstancesFrom::Revision(known) => (known.to_string(), String::new()),
        InstancesFrom::Name(name) => (String::new(), name.to_string()),
    };
    let args = vec![known, after, MAX_INSTANCES_READ.to_string()];
    let reply = redis.run(&script::LEDGER_INSTANCES, keys, args).await?;
    let outcome = match reply.word() {
        "unchanged" => Instances::Unchanged,
        "changed" => {
            let (instances, removed) = decode(&reply, 1)?;
            Instances::Changed { revision: reply.number(0)?, instances, removed }
        }
        "all" => {
            let next = match reply.text(1)? {
                "" => None,
                name => Some(LockName::new(name).map_err(|_| reply.unexpected())?),
            };
            Instances::All { revision: reply.number(0)?, instances: decode(&reply, 2)?.0, next }
        }
        _ => return Err(reply.unexpected().into()),
    };
    Ok(Reply::new(reply.now, outcome))
}

/// Decodes the instances of a reply, and the names of those whose definition is missing or cannot be decoded.
fn decode(reply: &ScriptReply, first: usize) -> Result<(Vec<Instance>, Vec<LockName>), RequestError> {
    let (mut instances, mut removed) = (Vec::new(), Vec::new());
    for at in (first..reply.len()).step_by(2) {
        let Ok(name) = LockName::new(reply.text(at)?) else { continue };
        match Record::read(reply.text(at + 1)?).and_then(|record| record.instance(name.clone())) {
            Some(instance) => instances.push(instance),
            None => removed.push(name),
        }
    }
    instances.sort_by(|a, b| a.name.cmp(&b.name));
    removed.sort();
    Ok((instances, removed))
}
