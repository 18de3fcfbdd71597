//! The statements. Each is a transaction of its own, at READ COMMITTED. Those on locks apply the store rules of lock-core;
//! those on pools read and write rows.
//!
//! - **The clock is read after the row is locked**, with `clock_timestamp()`: `now()` is the begin of the transaction,
//!   which may have waited. A grant notes the time for which it was computed.
//! - **Each statement sets what it depends on**, since a pooler gives it any connection, and a role has defaults of its
//!   own. Grants and renewals wait for the disk. A release does not:
//!   if a crash undoes it, the lease runs out.
//! - **A release locks the row first, and compares the lease that the lock returned.** An update that names the lease
//!   does not see the row of a grant that is not committed yet, does not wait for it, and leaves it behind.
//! - **A busy lock is not written**, so that those who wait cost no flush of the log.

use sqlx::AssertSqlSafe;
use std::{sync::Arc, time::Duration};

/// The version of the tables.
pub(super) const SCHEMA_VERSION: i32 = 1;

/// Creates the tables. Times are milliseconds since 1970; a lease and a counter end after theirs.
pub(super) const SCHEMA: &str = r#"
create table distlock_lock (
    name text collate "C" primary key,
    lease text, -- null if the lock is free
    depth int not null default 0,
    expires_ms bigint not null default 0,
    first bigint not null default 0, -- the first token of the last grant
    last bigint, -- the last token; null before the first grant
    keep_ms bigint, -- the end of the counter; null for no end
    granted_us bigint not null default 0, -- the time of the last grant
    freed bigint not null default 0, -- grows with each release that wakes waiters
    watchers jsonb not null default '{}' -- the processes that wait, with the ends of their subscriptions
) with (fillfactor = 50);
create index on distlock_lock (keep_ms);
-- The last grant of each name. Only grants write it, so a transaction that reads it `for share` holds up the next one.
create table distlock_fence (
    name text collate "C" primary key,
    lease text not null,
    first bigint not null,
    last bigint not null
) with (fillfactor = 50);
create table distlock_card (
    process text primary key,
    card text not null,
    expires_ms bigint not null
);
-- The run ledger: the data of each group of jobs, in parts.
create table distlock_run (
    grp text collate "C",
    kind text collate "C",
    name text collate "C",
    data text not null,
    open boolean not null, -- a job with open runs
    controlled boolean not null, -- a job that is paused, or has another schedule
    expires_ms bigint, -- the end of the record of a job that has run once
    primary key (grp, kind, name)
);
create index on distlock_run (grp) where open;
create index on distlock_run (grp) where controlled;
create index on distlock_run (grp, expires_ms) where expires_ms is not null;
create table distlock_meta (version int not null);
insert into distlock_meta values (1);
"#;

/// Creates the table of semaphores, read-write locks and fair locks, which earlier versions of this crate did not have. They
/// still work beside it, so it does not change the version of the tables.
pub(super) const POOL_SCHEMA: &str = r#"
create table distlock_pool (
    name text collate "C" primary key,
    state text not null, -- the holders, the waiters and the counter, as JSON
    version bigint not null, -- the time of the last write in microseconds, or more
    freed bigint not null, -- grows with each change that wakes waiters
    expires_ms bigint -- the end of all that is in it; null for no end
) with (fillfactor = 50);
create index on distlock_pool (expires_ms);
"#;

/// The time in microseconds since 1970.
const NOW: &str = "(extract(epoch from clock_timestamp()) * 1000000)::bigint";

/// The channel of the tables, whatever name of their schema a client uses.
const CHANNEL: &str = "'distlock:' || 'distlock_lock'::regclass::oid";

/// Settings of the transaction.
const DURABLE: &str = "
    select set_config('lock_timeout', '{patience}', true), set_config('synchronous_commit',
        case current_setting('synchronous_commit') when 'remote_apply' then 'remote_apply' else 'on' end, true)";
const QUICK: &str = "
    select set_config('lock_timeout', '{patience}', true), set_config('synchronous_commit', 'off', true)";

/// The columns of a granted lock at the time {clock}: from {old}, those that it had, in the order of `old`.
const GRANT: &str = "
    select $2, case when own then old.depth else 1 end, greatest(us / 1000 + $3, case when own then old.expires_ms end),
        drawn.first, reserved.last,
        case when keep is not null and reserved.last > us + 1000 then greatest(keep, reserved.last / 1000 + 1) else keep end, us
    from (select {clock} as us) clock,
    lateral (select {old}) as old(lease, depth, expires_ms, last, keep_ms),
    lateral (
        select coalesce(old.lease = $2 and old.expires_ms >= us / 1000, false) as own,
            case when old.keep_ms is null or old.keep_ms >= us / 1000 then old.last end as counter
    ) before,
    lateral (select greatest(us, coalesce(counter + 1, us + 1000), $6::bigint + 1) as first) drawn,
    lateral (select greatest(drawn.first, least(drawn.first + $5::int, us + 1000)) as last) reserved,
    lateral (
        select case
            when counter is null or (old.keep_ms is not null and counter / ($7::bigint * 125) <> us / ($7 * 125))
            then coalesce(us / 1000 + $7, case when counter is not null then old.keep_ms end)
            else old.keep_ms
        end as keep
    ) kept";

/// Grants a new hold: name, lease, milliseconds, not after, reserve, floor, retention. Answers the time; the tokens, if
/// it was granted; the remaining time of the holder, if one was seen.
const ACQUIRE: &str = "
with settings as materialized ({durable}),
clock as materialized (select {now} as us from settings),
seen as materialized (
    select l.expires_ms - us / 1000 as remaining
    from clock, distlock_lock l
    where l.name = $1 and l.lease <> $2 and l.expires_ms >= us / 1000
),
granted as (
    insert into distlock_lock as l (name, lease, depth, expires_ms, first, last, keep_ms, granted_us)
    select $1, new.* from clock begun, lateral ({grant a missing row}) as new
    where begun.us <= $4 and not exists (select from seen)
    on conflict (name) do update
    set (lease, depth, expires_ms, first, last, keep_ms, granted_us) = ({grant the row})
    where (l.lease is null or l.lease = $2 or l.expires_ms < {now} / 1000) and {now} <= $4
    returning l.first, l.last, l.granted_us
),
fenced as (
    insert into distlock_fence as f (name, lease, first, last) select $1, $2, first, last from granted
    on conflict (name) do update set
        -- The same acquire may be executed again after its reply.
        first = case when f.lease = excluded.lease then f.first else excluded.first end,
        lease = excluded.lease, last = excluded.last
)
select coalesce(granted_us, {now}) as us, first, last, (select remaining from seen)
from settings left join granted on true";

/// Renews leases, or changes their depths: names, leases, milliseconds, not after, depths. A name is in it once. Answers
/// for each, in their order, the time and `renewed`, `late`, `gone`, or `skipped` if another transaction has the row.
const RENEW: &str = "
with settings as materialized ({durable}),
items as materialized (
    select item.* from settings,
        unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::int[]) with ordinality
        as item(name, lease, millis, not_after, depth, number)
),
locked as materialized (
    select l.name, l.lease, l.expires_ms from settings, distlock_lock l
    where l.name = any($1) order by l.name for update of l {waits}
),
clock as materialized (select {now} as us, count(*) from locked),
renewed as (
    update distlock_lock l
    set expires_ms = greatest(l.expires_ms, us / 1000 + item.millis), depth = coalesce(item.depth, l.depth)
    from clock, items item, locked
    where l.name = item.name and locked.name = item.name and locked.lease = item.lease
        and locked.expires_ms >= us / 1000 and us <= item.not_after
    returning l.name
)
select us, case
    when renewed.name is not null then 'renewed'
    when us > item.not_after then 'late'
    when locked.name is null and exists (select from distlock_lock l where l.name = item.name) then 'skipped'
    else 'gone'
end
from clock, items item left join locked using (name) left join renewed using (name)
order by item.number";

/// Lowers the depth of a lease or frees it: name, lease, depth, whether to notify, this client. Answers the
/// time; whether there was a row; whether the lease had it; whether another lease has it; the number of other clients that
/// wait, which it notifies; the releases so far.
const RELEASE: &str = "
with settings as materialized ({settings}),
locked as materialized (
    select l.name, l.lease, l.expires_ms, l.watchers from settings, distlock_lock l
    where l.name = $1 for update of l
),
clock as materialized (select {now} as us, count(*) as rows from locked),
released as (
    update distlock_lock l
    set lease = case when $3 > 0 then l.lease end, depth = $3,
        freed = l.freed + case when $3 = 0 and $4 then 1 else 0 end
    from clock, locked
    where l.name = locked.name and locked.lease = $2 and locked.expires_ms >= us / 1000
    returning l.name, l.freed
),
watching as materialized (
    select count(*) as number from clock, locked, jsonb_each(watchers) watcher
    where watcher.key <> $5 and watcher.value::bigint >= us / 1000
),
notified as materialized (
    select pg_notify({channel}, $5 || ' ' || name) from released, watching where $3 = 0 and $4 and number > 0
)
select us, rows > 0, exists (select from released),
    exists (select from locked where lease <> $2 and expires_ms >= us / 1000), number, (select freed from released),
    (select count(*) from notified)
from clock, watching";

/// Writes the row of a name that has none, or waits for a grant that is about to.
const MAKE_ROW: &str = "
with settings as materialized ({quick})
insert into distlock_lock (name, keep_ms) select $1, {now} / 1000 + 60000 from settings on conflict do nothing";

/// Reads a lock.
const INSPECT: &str = "
select us, lease, depth, expires_ms
from (select {now} as us) clock left join distlock_lock on name = $1 and expires_ms >= us / 1000";

/// Notes that a client waits for locks, for a time: names, client, milliseconds. Answers with their releases so far. It
/// is part of the row, so a release that has not seen it waits for it. A row has at most 6, the latest.
const WATCH: &str = "
with settings as materialized ({quick})
insert into distlock_lock as l (name, keep_ms, watchers)
select name, {now} / 1000 + 60000, jsonb_build_object($2::text, {now} / 1000 + $3::bigint)
from settings, unnest($1::text[]) name order by name
on conflict (name) do update set watchers = (
    select coalesce(jsonb_object_agg(key, value), '{}') from (
        select key, value from jsonb_each(l.watchers)
        where key <> $2 and value::bigint >= {now} / 1000
        order by value::bigint desc limit 5
    ) others
) || excluded.watchers
returning name, freed";

/// The releases of locks so far.
const FREED: &str = "select name, freed from distlock_lock where name = any($1)";

/// Deletes free rows whose counters have expired, and for which nobody waits.
const SWEEP: &str = "
with settings as materialized ({quick}),
expired as materialized (
    select l.name from settings, distlock_lock l
    -- The begin of the statement does not change, so that the index can be used.
    where l.keep_ms < (extract(epoch from now()) * 1000)::bigint - 1
        and (l.lease is null or l.expires_ms < {now} / 1000)
        and not exists (select from jsonb_each(l.watchers) watcher where watcher.value::bigint >= {now} / 1000)
    order by l.keep_ms limit 100 for update of l skip locked
),
deleted as (delete from distlock_lock l using expired where l.name = expired.name)
delete from distlock_fence f using expired where f.name = expired.name";

/// Reads a pool.
const READ_POOL: &str = "
select us, state, version, freed from (select {now} as us) clock left join distlock_pool on name = $1";

/// Writes a pool: name, the version that was read (null for no row), state, version, releases, end, not after, whether to
/// notify, this client, whether to wait for the disk. The clock is read once the row is locked. Answers the time, and whether
/// the row was written.
///
/// It notifies all clients: the record says whether somebody waits. It waits for the disk only if it has written, as a lock
/// of the row alone is a record of the log as well: the clients that were slower would keep the row for a flush each.
const WRITE_POOL: &str = "
with asked as materialized (select current_setting('synchronous_commit') as level),
settings as materialized ({quick} from asked),
locked as materialized (
    select p.version from settings, distlock_pool p where p.name = $1 for update of p
),
clock as materialized (select {now} as us, count(*) from settings left join locked on true),
updated as (
    update distlock_pool p set state = $3, version = $4, freed = $5, expires_ms = $6
    from clock, locked where p.name = $1 and locked.version = $2 and us <= $7
    returning p.name
),
inserted as (
    insert into distlock_pool (name, state, version, freed, expires_ms)
    select $1, $3, $4, $5, $6 from clock where $2::bigint is null and us <= $7
    on conflict do nothing returning name
),
written as (select name from updated union all select name from inserted),
notified as materialized (select pg_notify({channel}, $9 || ' ' || name) from written where $8),
durable as materialized (
    select set_config('synchronous_commit', case level when 'remote_apply' then level else 'on' end, true)
    from written, asked where $10
)
select us, exists (select from written), (select count(*) from notified), (select count(*) from durable) from clock";

/// The releases of pools so far.
const FREED_OF_POOLS: &str = "select name, freed from distlock_pool where name = any($1)";

/// Deletes the rows of pools in which everything has ended.
const SWEEP_POOLS: &str = "
with settings as materialized ({quick}),
expired as materialized (
    select p.name from settings, distlock_pool p
    where p.expires_ms < (extract(epoch from now()) * 1000)::bigint - 1
    order by p.expires_ms limit 100 for update of p skip locked
)
delete from distlock_pool p using expired where p.name = expired.name";

/// Keeps other transactions from writing to a group: group, `synchronous_commit`. Answers the time after that. A client
/// that is suspended or lost meanwhile must not keep them from it.
const LOCK_GROUP: &str = "
with settings as materialized (
    select set_config('lock_timeout', '2s', true), set_config('idle_in_transaction_session_timeout', '2s', true),
        set_config('synchronous_commit',
            case current_setting('synchronous_commit') when 'remote_apply' then 'remote_apply' else $2 end, true)
), locked as materialized (
    select pg_advisory_xact_lock(hashtextextended('distlock:' || $1, 'distlock_run'::regclass::oid::bigint)) from settings
)
select {now} from locked";

/// Reads parts: group, kinds and names, whole kinds, whether jobs with open runs, whether jobs with controls, the instance
/// that a page follows, its length, a job whose claims and names of arguments are read, and a time before which records
/// have ended.
const PARTS: &str = "
select kind, name, data from distlock_run where grp = $1 and kind = 'head'
union all
select kind, name, data from distlock_run where grp = $1 and kind = any($2::text[]) and name = any($3::text[])
union all
select kind, name, case when kind = 'argument' then '' else data end from distlock_run
where grp = $1 and kind = any($4::text[])
union all
select kind, name, data from distlock_run where $5 and grp = $1 and open
union all
select kind, name, data from distlock_run where $6 and grp = $1 and controlled
union all
(select kind, name, data from distlock_run
where $7::text is not null and grp = $1 and kind = 'instance' and name > $7 order by name limit $8)
union all
select kind, name, case when kind = 'argument' then '' else data end from distlock_run
where $9::text is not null and grp = $1 and kind in ('argument', 'claim')
    and name > $9 || chr(10) and name < $9 || chr(11)
union all
(select kind, name, data from distlock_run where grp = $1 and expires_ms < $10 limit 100)";

/// Locks claims, unless transactions of the application have them: group, the name of one, or the job of all.
const LOCK_CLAIMS: &str = "
select 'locked', name, 'x' from distlock_run
where grp = $1 and kind = 'claim' and (name = $2 or name > $3 || chr(10) and name < $3 || chr(11))
for update skip locked";

/// Writes parts: group, kinds, names, whether open, whether controlled, ends of records, data. Those without data are
/// deleted.
const WRITE_PARTS: &str = "
with part as materialized (
    select * from unnest($2::text[], $3::text[], $4::boolean[], $5::boolean[], $6::bigint[], $7::text[])
        as part(kind, name, open, controlled, expires_ms, data)
), deleted as (
    delete from distlock_run r using part where r.grp = $1 and r.kind = part.kind and r.name = part.name and part.data is null
)
insert into distlock_run (grp, kind, name, data, open, controlled, expires_ms)
select $1, kind, name, data, open, controlled, expires_ms from part where data is not null
on conflict (grp, kind, name) do update
set data = excluded.data, open = excluded.open, controlled = excluded.controlled, expires_ms = excluded.expires_ms";

/// Deletes the expired cards, and writes one: process, card, milliseconds.
const WRITE_CARD: &str = "
with expired as (
    delete from distlock_card where process in (
        select process from distlock_card where expires_ms < {now} / 1000 and process <> $1 for update skip locked)
)
insert into distlock_card (process, card, expires_ms) values ($1, $2, {now} / 1000 + $3)
on conflict (process) do update set card = excluded.card, expires_ms = excluded.expires_ms";

const REMOVE_CARD: &str = "delete from distlock_card where process = $1";

const READ_CARD: &str = "select card from distlock_card where process = $1 and expires_ms >= {now} / 1000";

/// Finds the held locks whose names begin with $1, which is not a pattern: prefix, limit.
const LIST: &str = "
select name from distlock_lock
where name >= $1 and substr(name, 1, length($1)) = $1 and lease is not null and expires_ms >= {now} / 1000
order by name limit $2";

/// Finds the pools with holders or waiters whose names begin with $1, which is not a pattern: prefix, limit.
const LIST_POOLS: &str = "
select name from distlock_pool
where name >= $1 and substr(name, 1, length($1)) = $1 and jsonb_path_exists(
    state::jsonb, '$.**.ends_ms ? (@ >= $now)', jsonb_build_object('now', {now} / 1000))
order by name limit $2";

/// The time that a statement waits for a row.
pub(super) const PATIENCE: Duration = Duration::from_millis(250);

/// The tables of a schema.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    /// Before each name: the schema with a dot, or nothing for the one that the server chooses.
    schema: String,
}

impl Tables {
    pub(super) fn of(schema: Option<&str>) -> Self {
        Self { schema: schema.map_or_else(String::new, |schema| format!("\"{schema}\".")) }
    }

    /// Returns a statement on these tables.
    pub(crate) fn name(&self, statement: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(statement.replace("distlock_", &format!("{}distlock_", self.schema)))
    }
}

/// The statements on the tables of a schema.
pub(super) struct Statements {
    pub(super) acquire: Arc<str>,
    pub(super) renew: Arc<str>,
    /// The same, but it waits for other transactions.
    pub(super) renew_one: Arc<str>,
    pub(super) release: Arc<str>,
    pub(super) force_release: Arc<str>,
    pub(super) make_row: Arc<str>,
    pub(super) inspect: Arc<str>,
    pub(super) watch: Arc<str>,
    pub(super) freed: Arc<str>,
    pub(super) sweep: Arc<str>,
    pub(super) read_pool: Arc<str>,
    pub(super) write_pool: Arc<str>,
    pub(super) freed_of_pools: Arc<str>,
    pub(super) sweep_pools: Arc<str>,
    pub(super) write_card: Arc<str>,
    pub(super) remove_card: Arc<str>,
    pub(super) read_card: Arc<str>,
    pub(super) list: Arc<str>,
    pub(super) list_pools: Arc<str>,
    pub(super) now: Arc<str>,
    pub(super) channel: Arc<str>,
    pub(super) lock_group: Arc<str>,
    pub(super) parts: Arc<str>,
    pub(super) lock_claims: Arc<str>,
    pub(super) write_parts: Arc<str>,
}

impl Statements {
    pub(super) fn of(tables: &Tables) -> Self {
        let patience = PATIENCE.as_millis().to_string();
        let complete = |text: &str| {
            let text = text
                .replace("{grant a missing row}", GRANT)
                .replace("{clock}", "begun.us")
                .replace("{old}", "null::text, null::int, null::bigint, null::bigint, null::bigint")
                .replace("{grant the row}", GRANT)
                .replace("{clock}", "{now}")
                .replace("{old}", "l.lease, l.depth, l.expires_ms, l.last, l.keep_ms");
            let text = text.replace("{durable}", DURABLE).replace("{quick}", QUICK);
            let text = text.replace("{now}", NOW).replace("{patience}", &patience);
            let text = text.replace("{channel}", CHANNEL);
            Arc::from(tables.name(&text).0)
        };
        Self {
            acquire: complete(ACQUIRE),
            renew: complete(&RENEW.replace("{waits}", "skip locked")),
            renew_one: complete(&RENEW.replace("{waits}", "")),
            release: complete(&RELEASE.replace("{settings}", QUICK)),
            force_release: complete(&RELEASE.replace("{settings}", DURABLE)),
            make_row: complete(MAKE_ROW),
            inspect: complete(INSPECT),
            watch: complete(WATCH),
            freed: complete(FREED),
            sweep: complete(SWEEP),
            read_pool: complete(READ_POOL),
            write_pool: complete(WRITE_POOL),
            freed_of_pools: complete(FREED_OF_POOLS),
            sweep_pools: complete(SWEEP_POOLS),
            write_card: complete(WRITE_CARD),
            remove_card: complete(REMOVE_CARD),
            read_card: complete(READ_CARD),
            list: complete(LIST),
            list_pools: complete(LIST_POOLS),
            now: complete("select {now}"),
            channel: complete("select {channel}"),
            lock_group: complete(LOCK_GROUP),
            parts: complete(PARTS),
            lock_claims: complete(LOCK_CLAIMS),
            write_parts: complete(WRITE_PARTS),
        }
    }
}
