//! The distributed lock without a token check in the store. It is correct as long as no holder is paused past its
//! lease.

use super::{
    sections,
    seller::{SellError, Seller},
};
use crate::domain::{Order, Outcome};
use lock_core::FencingToken;

pub(super) async fn sell(seller: &Seller, order: &Order, token: FencingToken) -> Result<Outcome, SellError> {
    sections::unfenced(seller, order, Some(token)).await
}
