-- The stock, and beside each count the highest fencing token that has read or written it.
create table products (
    sku         text   not null primary key,
    title       text   not null,
    price_cents bigint not null check (price_cents > 0),
    -- The units before the first sale. Later ones are rows of `restocks`.
    initial     bigint not null check (initial >= 0),
    stock       bigint not null check (stock >= 0),
    -- The number of orders so far; it numbers them.
    sales       bigint not null default 0,
    fence       bigint not null default 0
);

-- The charges that a shop is about to make. A row is committed before the payment provider is called, so that a crash between the
-- charge and the order leaves a trace; a job settles or refunds it.
create table intents (
    -- The customer and the customer's `Idempotency-Key`. The provider receives the same key.
    key         text   not null primary key,
    sku         text   not null references products (sku),
    quantity    bigint not null check (quantity > 0),
    cents       bigint not null check (cents > 0),
    reservation text,
    state       text   not null check (state in ('open', 'ordered', 'refunding', 'refunded', 'declined')),
    opened_at   bigint not null -- seconds since 1970
);
create index intents_open on intents (opened_at) where state in ('open', 'refunding');

-- One row per order. `number` counts the orders of a product in the order of their commits.
create table orders (
    key      text   not null primary key,
    sku      text   not null references products (sku),
    quantity bigint not null check (quantity > 0),
    cents    bigint not null check (cents > 0),
    number   bigint not null,
    -- The fencing token under which it was written; null without a lock.
    token    bigint,
    unique (sku, number)
);

-- Units that are taken from the stock for a time. One whose customer does not return expires.
create table reservations (
    id         text   not null primary key, -- the customer and the customer's `Idempotency-Key`
    sku        text   not null references products (sku),
    quantity   bigint not null check (quantity > 0),
    state      text   not null check (state in ('held', 'ordered', 'cancelled', 'expired')),
    expires_at bigint not null -- seconds since 1970
);
create index reservations_due on reservations (expires_at) where state = 'held';

-- One row per product and run of its restocking: a run that is repeated finds its effect here.
create table restocks (
    sku      text   not null references products (sku),
    run      text   not null,
    quantity bigint not null check (quantity > 0),
    primary key (sku, run)
);
