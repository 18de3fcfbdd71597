//! The products of a shop, at least one and each with a unique code.

use super::{Product, Sku};
use std::collections::HashMap;

/// A list of at least one product, each with a unique code.
#[derive(Debug, Clone)]
pub struct Catalogue {
    products: Vec<Product>,
    by_sku: HashMap<Sku, usize>,
}

impl Catalogue {
    /// Creates a catalogue, and checks the rules that span products.
    ///
    /// # Errors
    /// Returns [`CatalogueRule`] if there is no product or two products have the same code.
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

    /// Returns the products in file order.
    #[must_use]
    pub fn products(&self) -> &[Product] {
        &self.products
    }

    /// Returns the product with this code.
    #[must_use]
    pub fn get(&self, sku: &Sku) -> Option<&Product> {
        self.by_sku.get(sku).map(|&index| &self.products[index])
    }

    /// Returns the total number of units of all products.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.products.iter().map(|p| u64::from(p.stock.get())).sum()
    }
}

/// A violated rule that spans products. Indices start at 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueRule {
    /// There is no product.
    #[error("the catalogue contains no products: add at least one")]
    Empty,
    /// Two products have the same code.
    #[error("the products {first} and {second} have the same SKU {sku}: give each product its own SKU")]
    Duplicate {
        /// The duplicate code.
        sku: Sku,
        /// Index of the first product with the code.
        first: usize,
        /// Index of the second product with the code.
        second: usize,
    },
}
