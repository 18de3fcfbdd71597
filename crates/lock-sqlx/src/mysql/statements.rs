//! The statements. Each text is one request to the server, applies the store rules of lock-core, and is a transaction of
//! its own, at READ COMMITTED: a client that is suspended or lost keeps no row from others.
//!
//! - **The clock is read after the row is locked**, with `sysdate()`: `now()` is the begin of the statement.
//! - **An operation that may meet a grant under way makes the row of its name first.** So it either sees the grant, or the
//!   grant reads the clock after it, and is late if it has to be.
//! - **A grant passes over the row of its fence while a transaction of the application has that row**, and is refused
//!   then, without waiting.
//! - **A busy lock is not written**, so that those who wait cost no flush of the log.
//!
//! Values are numbers, or bytes in hexadecimal, which need no escapes. They begin with a colon here. A variable that was
//! null has no type, and a sum with it would be a floating-point number: hence the casts.

/// The version of the tables.
pub(super) const SCHEMA_VERSION: i64 = 1;

/// Creates the tables. Times are milliseconds since 1970; a lease and a counter end after theirs.
pub(super) const SCHEMA: &str = "
create table if not exists distlock_lock (
    name varbinary(512) not null primary key,
    lease varbinary(64), -- null if the lock is free
    depth int not null default 0,
    expires_ms bigint not null default 0,
    first bigint not null default 0, -- the first token of the last grant
    last bigint, -- the last token; null before the first grant
    keep_ms bigint, -- the end of the counter; null for no end
    key (keep_ms)
) engine = InnoDB;
-- The last grant of each name. Only grants write it, so a transaction that reads it `for share` holds up the next one.
create table if not exists distlock_fence (
    name varbinary(512) not null primary key,
    lease varbinary(64) not null,
    first bigint not null,
    last bigint not null
) engine = InnoDB;
create table if not exists distlock_card (
    process varbinary(64) not null primary key,
    card mediumblob not null,
    expires_ms bigint not null,
    key (expires_ms)
) engine = InnoDB;
create table if not exists distlock_meta (version int not null primary key) engine = InnoDB;
insert ignore into distlock_meta select 1 from dual where not exists (select 1 from distlock_meta);
";

/// The settings of a connection, whatever the defaults of the server are.
pub(super) const SETTINGS: &str = "
set session transaction isolation level read committed, read write;
set session sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1,
    completion_type = 0, sql_safe_updates = 0, innodb_lock_wait_timeout = 2, net_write_timeout = 2, wait_timeout = 28800;
";

/// The time in microseconds since 1970.
const NOW: &str = "timestampdiff(microsecond, '1970-01-01', sysdate(6))";

/// Makes the row of a name, free, for a minute, unless it exists. It reads before: a read within the insert would have a
/// view of its own, which MariaDB 11.6 does not let it leave. A duplicate takes its final lock at once.
const MAKE_ROW: &str = "
set @known = 0;
select 1 into @known from distlock_lock where name = :name;
insert into distlock_lock (name, keep_ms) select :name, :now div 1000 + 60000 from dual where not @known
on duplicate key update name = values(name);";

/// Begins a transaction, locks the row of a name, and reads it and the clock.
const LOCK_ROW: &str = "
start transaction;
set @found = 0, @held_by = null, @expires = -1, @last = cast(null as signed), @keep = cast(null as signed);
select 1, lease, expires_ms, last, keep_ms into @found, @held_by, @expires, @last, @keep
    from distlock_lock where name = :name for update;
set @us = :now;
set @own = coalesce(@held_by = :lease and @expires >= @us div 1000, 0);
set @busy = coalesce(@held_by <> :lease and @expires >= @us div 1000, 0);";

/// Grants a new hold: name, lease, millis, not_after, reserve, floor, retention. Answers the time; the tokens, if
/// it was granted; the remaining time of the holder, if there is one; whether a transaction has the fence; whether the row
/// was found, which a sweep may have deleted meanwhile; and whether the server is read-only.
pub(super) const ACQUIRE: &str = "{make row}{lock row}
set @known = 0, @open = 0;
select 1 into @known from distlock_fence where name = :name;
insert into distlock_fence select :name, '', 0, 0 from dual where @found and not @busy and not @known
    on duplicate key update name = values(name);
select 1 into @open from distlock_fence where name = :name and @found and not @busy for update skip locked;
set @grants = @found and @open and not @busy and @us <= :not_after and not @@global.read_only;
set @counter = cast(case when @keep is null or @keep >= @us div 1000 then @last end as signed);
set @first = greatest(@us, coalesce(@counter + 1, @us + 1000), coalesce(cast(:floor as signed) + 1, 0));
set @to = greatest(@first, least(@first + :reserve, @us + 1000));
set @for = cast(:retention as signed);
set @kept = cast(case
    when @counter is null or (@keep is not null and @counter div (@for * 125) <> @us div (@for * 125))
    then coalesce(@us div 1000 + @for, case when @counter is not null then @keep end)
    else @keep
end as signed);
update distlock_lock
set depth = if(@own, depth, 1), expires_ms = greatest(@us div 1000 + :millis, if(@own, expires_ms, 0)),
    lease = :lease, first = @first, last = @to,
    keep_ms = if(@to > @us + 1000, greatest(@kept, @to div 1000 + 1), @kept)
where name = :name and @grants;
-- The same acquire may be executed again after its reply.
update distlock_fence set first = if(lease = :lease, first, @first), lease = :lease, last = @to
where name = :name and @grants;
commit;
select @us as us, if(@grants, @first, null), if(@grants, @to, null), if(@busy, @expires - @us div 1000, null),
    @found and not @busy and not @open, @found, @@global.read_only;";

/// Renews a lease, in a transaction that has begun: name, lease, millis, not_after, and its depth, or null for the one that
/// it has. Answers the time; whether it was renewed; whether it was skipped, since another transaction has its row; and
/// whether the server is read-only.
pub(super) const RENEW: &str = "
set @found = 0, @held_by = null, @expires = -1;
select 1, lease, expires_ms into @found, @held_by, @expires from distlock_lock where name = :name for update{waits};
set @us = :now;
set @renews = coalesce(@held_by = :lease and @expires >= @us div 1000 and @us <= :not_after, 0) and not @@global.read_only;
update distlock_lock set expires_ms = greatest(expires_ms, @us div 1000 + :millis), depth = coalesce(:depth, depth)
where name = :name and @renews;
select @us as us, @renews, not @found and exists (select 1 from distlock_lock where name = :name), @@global.read_only;";

/// Lowers the depth of a lease or frees it: name, lease, depth. Answers the time, whether the lease had it, whether
/// another one has it, and whether the row was found.
pub(super) const RELEASE: &str = "{make row}{lock row}
update distlock_lock set lease = if(:depth > 0, lease, null), depth = :depth where name = :name and @own;
commit;
select @us as us, @own, @busy, @found;";

/// Reads a lock.
pub(super) const INSPECT: &str = "
set @us = :now;
select @us as us, lease, depth, expires_ms
from (select 1) one left join distlock_lock on name = :name and expires_ms >= @us div 1000;";

/// Finds free rows whose counters have expired.
pub(super) const EXPIRED: &str = "
set @us = :now;
select name from distlock_lock
where keep_ms < @us div 1000 and (lease is null or expires_ms < @us div 1000) order by keep_ms limit 100;";

/// Deletes such a row and its fence, unless other transactions have them.
pub(super) const SWEEP: &str = "
start transaction;
set @found = 0, @open = 0;
select 1 into @found from distlock_lock
    where name = :name and keep_ms < :now div 1000 and (lease is null or expires_ms < :now div 1000)
    for update skip locked;
select not exists (select 1 from distlock_fence where name = :name) into @open;
select 1 into @open from distlock_fence where name = :name for update skip locked;
delete from distlock_fence where name = :name and @found and @open;
delete from distlock_lock where name = :name and @found and @open;
commit;";

/// Deletes the expired cards, and writes one: process, card, millis.
pub(super) const WRITE_CARD: &str = "
set @us = :now;
delete from distlock_card where expires_ms < @us div 1000;
insert into distlock_card values (:process, :card, @us div 1000 + :millis)
on duplicate key update card = values(card), expires_ms = values(expires_ms);";

pub(super) const REMOVE_CARD: &str = "delete from distlock_card where process = :process;";

pub(super) const READ_CARD: &str =
    "select card from distlock_card where process = :process and expires_ms >= :now div 1000;";

/// Finds the held locks whose names begin with a prefix: prefix, limit.
pub(super) const LIST: &str = "
set @us = :now;
select name from distlock_lock
where name >= :prefix and left(name, length(:prefix)) = :prefix and lease is not null and expires_ms >= @us div 1000
order by name limit :limit;";

/// A value of a statement.
pub(super) enum Value<'v> {
    Text(&'v str),
    Number(i64),
    Null,
}

impl From<Option<i64>> for Value<'_> {
    fn from(number: Option<i64>) -> Self {
        number.map_or(Self::Null, Self::Number)
    }
}

/// Returns a statement with its values.
pub(super) fn statement(text: &str, values: &[(&str, Value<'_>)]) -> String {
    let mut text = text.replace("{make row}", MAKE_ROW).replace("{lock row}", LOCK_ROW).replace(":now", NOW);
    for (name, value) in values {
        let digit = |digit: u8| char::from_digit(u32::from(digit), 16).unwrap_or('0');
        let literal = match value {
            Value::Text(value) => {
                let digits = value.bytes().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
                format!("x'{}'", digits.collect::<String>())
            }
            Value::Number(number) => number.to_string(),
            Value::Null => "null".to_owned(),
        };
        text = text.replace(&format!(":{name}"), &literal);
    }
    text
}
