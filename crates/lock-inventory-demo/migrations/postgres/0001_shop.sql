-- The stock, and beside every counter the highest fencing token that has touched it.
create table sku (
    id          text    not null primary key,
    title       text    not null,
    category    text    not null,
    price_cents bigint  not null check (price_cents > 0),
    initial     bigint  not null check (initial >= 0),
    restocked   bigint  not null default 0,
    -- This check holds also in a sale that oversells: each of its writes is legal by itself.
    stock       bigint  not null check (stock >= 0),
    sold        bigint  not null default 0,
    fence       bigint  not null default 0
);

-- The ledger: one row per accepted order, `seq` in the order of the commits of a product. The audit reads this.
create table orders (
    seq      bigint  not null generated always as identity primary key,
    -- The client's Idempotency-Key. The index, not the lock, decides that there is one order per key.
    key      text    not null unique,
    sku      text    not null references sku (id),
    quantity bigint  not null check (quantity > 0),
    cents    bigint  not null check (cents > 0),
    shop     text    not null,
    -- The token of the hold that sold it; null for a strategy without a lock.
    token    bigint 
);

-- Pieces that are taken from the stock for a time. One whose client vanishes expires.
create table reservations (
    id         text    not null primary key,
    sku        text    not null references sku (id),
    quantity   bigint  not null check (quantity > 0),
    cents      bigint  not null,
    state      text    not null check (state in ('held', 'confirmed', 'cancelled', 'expired')),
    expires_at bigint  not null
);
create index reservations_due on reservations (expires_at) where state = 'held';

-- One row per product and run of the job: a run that is repeated finds its effect here.
create table restocks (
    run      text    not null,
    sku      text    not null references sku (id),
    quantity bigint  not null check (quantity > 0),
    token    bigint  not null,
    primary key (run, sku)
);

-- The results of the nightly audit.
create table audits (
    run      text    not null primary key,
    breaches bigint  not null,
    oversold bigint  not null
);

-- One row per piece, for the strategy `units`.
create table units (
    id        bigint not null generated always as identity primary key,
    sku       text   not null references sku (id),
    order_key text
);
create index units_free on units (sku, id) where order_key is null;

-- Every start of a job's run. There is no unique key: a run that started twice has two rows.
create table job_runs (
    seq          bigint  not null generated always as identity primary key,
    job          text not null,
    scheduled_ms bigint not null,
    attempt      bigint not null,
    shop         text not null,
    started_ms   bigint not null
);
