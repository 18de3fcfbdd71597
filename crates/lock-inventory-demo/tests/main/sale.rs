use crate::catalogue;
use lock_inventory_demo::{
    domain::{Demand, DemandSize, Evidence, Verdict},
    progress::Progress,
    sale::{Plan, Sale, Strategy, Venue, run},
};

fn plan(products: u32, stock: u32, orders: u32, stalls: u32) -> Plan {
    let catalogue = catalogue(products, stock);
    let demand = Demand::draw(&catalogue, DemandSize { orders, stalls, seed: 42 }).unwrap();
    Plan { catalogue, demand, shops: 3, buyers: 40, seed: 42, venue: Venue::Tasks }
}

async fn sell(plan: &Plan, strategy: Strategy) -> Sale {
    run(plan, strategy, Progress::Silent).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_demand_oversells_without_the_lock_and_not_with_it() {
    let plan = plan(8, 20, 400, 3);
    let without = sell(&plan, Strategy::WithoutLock).await;
    let with = sell(&plan, Strategy::WithLock).await;

    assert!(without.audit.oversold > 0, "{:?}", without.audit);
    assert_eq!((with.audit.oversold, with.audit.breaches.as_slice()), (0, [].as_slice()));
    assert_eq!((without.answered, with.answered), (400, 400), "every buyer is answered");
    assert_eq!(with.answered, with.audit.orders + with.sold_out + with.refused);
    assert_eq!((without.waits.len(), with.waits.len()), (0, 400));

    let seen = Evidence { without: &without.audit, with: &with.audit, refused: with.refused, stalls: 3 };
    assert!(Verdict::of(seen).is_proven(), "{}", Verdict::of(seen));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_hot_product_sells_out_exactly() {
    let sale = sell(&plan(1, 50, 300, 0), Strategy::WithLock).await;
    assert_eq!((sale.audit.sold, sale.audit.oversold, sale.refused), (50, 0, 0));
    assert_eq!(sale.audit.breaches, []);
}
