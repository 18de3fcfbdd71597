//! Customers who compete, and customers who give up and repeat.

use crate::support::{Customer, PRICE, Settings, World, assert_honest};

#[tokio::test(flavor = "multi_thread")]
async fn last_unit_is_sold_to_one_of_two_customers() {
    let world = World::sqlite(&[("lamp", 1)]).await;
    let shops = [world.shop("a"), world.shop("b")];
    let (ann, bob) = (Customer::new("ann"), Customer::new("bob"));
    let (first, second) = ([shops[0].address], [shops[1].address]);
    let (ann, bob) = tokio::join!(ann.insist(&first, "lamp", "k"), bob.insist(&second, "lamp", "k"));
    let mut last = [ann.last().unwrap(), bob.last().unwrap()];
    last.sort_by_key(|reply| reply.status);
    assert_eq!(last.map(|reply| reply.status.as_u16()), [201, 409], "{last:#?}");
    assert_eq!(last[1].problem(), "sold-out");
    let audit = world.audit().await;
    assert_eq!((audit.orders, audit.charged), (1, PRICE));
}

#[tokio::test(flavor = "multi_thread")]
async fn customer_who_gives_up_and_repeats_has_one_order() {
    let world = World::sqlite(&[("lamp", 5)]).await;
    let slow = Settings { payment_delay_ms: 1_000, ..Settings::default() };
    let shops = [world.shop_with("a", &slow), world.shop("b")];
    let ann = Customer::new("ann");
    {
        let order = ann.order(shops[0].address, "lamp", "k");
        tokio::select! {
            answer = order => panic!("answered before the charge was seen: {answer:?}"),
            () = world.charged(&ann, "k") => {}
        }
    } // closes the connection
    let replies = ann.insist(&[shops[1].address], "lamp", "k").await;
    assert!(replies.last().unwrap().is_sold(), "{replies:#?}");
    assert_honest(&replies);
    let audit = world.audit().await;
    assert_eq!((audit.orders, audit.charged, audit.ordered), (1, PRICE, PRICE));
}

#[tokio::test(flavor = "multi_thread")]
async fn terminated_shop_completes_its_order() {
    let world = World::sqlite(&[("lamp", 5)]).await;
    let shop = world.shop_with("a", &Settings { payment_delay_ms: 2_000, ..Settings::default() });
    let (ann, address) = (Customer::new("ann"), shop.address);
    let order = {
        let ann = ann.clone();
        tokio::spawn(async move { ann.order(address, "lamp", "k").await })
    };
    world.charged(&ann, "k").await;
    let status = tokio::task::block_in_place(|| shop.terminate());
    assert!(status.success(), "{status}");
    let reply = order.await.unwrap().unwrap();
    assert!(reply.is_sold(), "{reply:?}");
    let audit = world.audit().await;
    assert_eq!((audit.orders, audit.charged, audit.ordered), (1, PRICE, PRICE));
}
