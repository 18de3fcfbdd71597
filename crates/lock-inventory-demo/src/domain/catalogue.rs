//! All products of a shop: at least one, and every code once.

use super::{Product, Sku};
use std::collections::HashMap;

/// The products by code. There is at least one.
#[derive(Debug, Clone)]
pub struct Catalogue {
    products: Vec<Product>,
    by_sku: HashMap<Sku, usize>,
}

impl Catalogue {
    /// Checks the rules between products.
    ///
    /// # Errors
    /// [`CatalogueRule`] when there is no product, or two have the same code.
    pub fn new(products: Vec<Product>) -> Result<Self, CatalogueRule> {
        let mut by_sku = HashMap::with_capacity(products.len());
        for (index, product) in products.iter().enumerate() {
            if let Some(first) = by_sku.insert(product.sku.clone(), index) {
                return Err(CatalogueRule::Duplicate { sku: product.sku.clone(), first, second: index });
            }
        }
        if products.is_empty() {
            return Err(CatalogueRule::Empty);
        }
        Ok(Self { products, by_sku })
    }

    /// The products in the order of the file.
    #[must_use]
    pub fn products(&self) -> &[Product] {
        &self.products
    }

    /// The product of this code.
    #[must_use]
    pub fn get(&self, sku: &Sku) -> Option<&Product> {
        self.by_sku.get(sku).map(|&index| &self.products[index])
    }

    /// How many pieces there are of everything together.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.products.iter().map(|p| u64::from(p.stock.get())).sum()
    }
}

/// A rule between products that is broken; products are counted from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueRule {
    /// There is no product.
    #[error("there is no product: add at least one")]
    Empty,
    /// Two products have the same code.
    #[error("the products {first} and {second} have the same sku {sku}: give each its own")]
    Duplicate {
        /// The code.
        sku: Sku,
        /// The product that had it first.
        first: usize,
        /// The product that has it again.
        second: usize,
    },
}
