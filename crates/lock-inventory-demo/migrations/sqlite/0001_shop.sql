-- The stock, and beside every counter the highest fencing token that has touched it.
create table sku (
    id          text    not null primary key,
    title       text    not null,
    category    text    not null,
    price_cents integer not null check (price_cents > 0),
    initial     integer not null check (initial >= 0),
    restocked   integer not null default 0,
    -- This check holds also in a sale that oversells: each of its writes is legal by itself.
    stock       integer not null check (stock >= 0),
    sold        integer not null default 0,
    fence       integer not null default 0
) strict;

-- The ledger: one row per accepted order, `seq` in the order of the commits of a product. The audit reads this.
create table orders (
    seq      integer not null primary key autoincrement,
    -- The client's Idempotency-Key. The index, not the lock, decides that there is one order per key.
    key      text    not null unique,
    sku      text    not null references sku (id),
    quantity integer not null check (quantity > 0),
    cents    integer not null check (cents > 0),
    shop     text    not null,
    -- The token of the hold that sold it; null for a strategy without a lock.
    token    integer
) strict;

-- Pieces that are taken from the stock for a time. One whose client vanishes expires.
create table reservations (
    id         text    not null primary key,
    sku        text    not null references sku (id),
    quantity   integer not null check (quantity > 0),
    cents      integer not null,
    state      text    not null check (state in ('held', 'confirmed', 'cancelled', 'expired')),
    expires_at integer not null
) strict;
create index reservations_due on reservations (expires_at) where state = 'held';

-- One row per product and run of the job: a run that is repeated finds its effect here.
create table restocks (
    run      text    not null,
    sku      text    not null references sku (id),
    quantity integer not null check (quantity > 0),
    token    integer not null,
    primary key (run, sku)
) strict;

-- The results of the nightly audit.
create table audits (
    run      text    not null primary key,
    breaches integer not null,
    oversold integer not null
) strict;

-- Every start of a job's run. There is no unique key: a run that started twice has two rows.
create table job_runs (
    seq          integer not null primary key autoincrement,
    job          text not null,
    scheduled_ms integer not null,
    attempt      integer not null,
    shop         text not null,
    started_ms   integer not null
) strict;
