-- The stock, and beside every counter the highest fencing token that has touched it.
create table sku (
    id          text    not null primary key,
    title       text    not null,
    category    text    not null,
    price_cents integer not null check (price_cents > 0),
    -- This check holds all through the sale that oversells: each of its writes is legal by itself.
    stock       integer not null check (stock >= 0),
    fence       integer not null default 0
) strict;

-- The ledger: one row per accepted order, `seq` in the order of the commits. The audit reads this, not the counter.
create table orders (
    seq      integer not null primary key autoincrement,
    number   integer not null unique,
    sku      text    not null references sku (id),
    quantity integer not null check (quantity > 0),
    cents    integer not null check (cents > 0),
    shop     text    not null,
    -- The token of the hold that sold it; null in a shop that takes no lock.
    token    integer
) strict;
