//! The buyers: so many at a time, each placing its next order when the last one was answered.

use super::{Book, Counter, SaleError};
use crate::domain::Order;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Lets the buyers in. Orders go to the shops in turn, as a load balancer would send them.
pub(super) fn enter(
    tasks: &mut JoinSet<Result<(), SaleError>>,
    buyers: u32,
    orders: Arc<[Order]>,
    shops: &[Arc<Counter>],
    book: &Arc<Book>,
) {
    let shops: Arc<[Arc<Counter>]> = shops.into();
    for buyer in 0..buyers as usize {
        let (orders, shops, book) = (Arc::clone(&orders), Arc::clone(&shops), Arc::clone(book));
        tasks.spawn(async move {
            for order in orders.iter().skip(buyer).step_by(buyers as usize) {
                let shop = &shops[order.number.get() as usize % shops.len()];
                book.note(order, shop.sell(order).await?);
            }
            Ok(())
        });
    }
}
