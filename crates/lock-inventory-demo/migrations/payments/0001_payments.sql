-- The payment provider's books, in a database of its own. It charges at most once per key.
create table charges (
    key   text   not null primary key,
    -- 0 if the key was refunded before it was charged: a charge that arrives later is refused.
    cents bigint not null check (cents >= 0),
    state text   not null check (state in ('charged', 'refunded'))
);
