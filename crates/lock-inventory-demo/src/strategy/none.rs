//! No exclusion. During the payment, other orders read the same stock, and the last write wins.

use super::{
    sections,
    seller::{SellError, Seller},
};
use crate::domain::{Order, Outcome};

pub(super) async fn sell(seller: &Seller, order: &Order) -> Result<Outcome, SellError> {
    sections::unfenced(seller, order, None).await
}
