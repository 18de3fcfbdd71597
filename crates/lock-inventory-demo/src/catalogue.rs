//! Parsing of catalogues in CSV format. Errors contain the line number.

use crate::domain::{Catalogue, CatalogueRule, Cents, Product, Quantity, Sku, SkuError};
use csv::{ReaderBuilder, StringRecord};
use std::{
    io,
    path::{Path, PathBuf},
};

/// The built-in catalogue.
pub const DEFAULT: &str = include_str!("../data/catalogue.csv");

/// The required columns, in any order. Other columns are ignored.
pub const COLUMNS: [&str; 5] = ["sku", "title", "category", "price_cents", "stock"];

/// Reads the file at `path`.
///
/// # Errors
/// Returns [`CatalogueError`] if the file cannot be read or is not a valid catalogue.
pub fn read(path: &Path) -> Result<Catalogue, CatalogueError> {
    let unreadable = |source| CatalogueError::Unreadable { path: path.into(), source };
    // Reading bytes instead of text lets the error name the line with the wrong encoding.
    parse(&std::fs::read(path).map_err(unreadable)?)
}

/// Reads CSV text.
///
/// # Errors
/// Returns [`CatalogueError`] if the text is not a valid catalogue.
pub fn parse(text: &[u8]) -> Result<Catalogue, CatalogueError> {
    let mut reader = ReaderBuilder::new().from_reader(text);
    let columns = columns(reader.headers().map_err(CatalogueError::from)?)?;
    let (mut products, mut lines) = (Vec::new(), Vec::new());
    for record in reader.records() {
        let record = record?;
        let line = record.position().map_or(0, csv::Position::line);
        products.push(product(&record, &columns).map_err(|problem| CatalogueError::Row { line, problem })?);
        lines.push(line);
    }
    Catalogue::new(products).map_err(|rule| match rule {
        CatalogueRule::Empty => CatalogueError::Empty,
        CatalogueRule::Duplicate { sku, first, second } => {
            let problem = RowProblem::Duplicate { sku, first: lines[first] };
            CatalogueError::Row { line: lines[second], problem }
        }
    })
}

fn columns(header: &StringRecord) -> Result<[usize; 5], CatalogueError> {
    let mut found = [0; 5];
    for (column, index) in COLUMNS.into_iter().zip(&mut found) {
        let position = header.iter().position(|name| name.trim() == column);
        *index = position.ok_or(CatalogueError::MissingColumn { column })?;
    }
    Ok(found)
}

fn product(record: &StringRecord, columns: &[usize; 5]) -> Result<Product, RowProblem> {
    let [sku, title, category, price, stock] =
        columns.map(|index| record.get(index).unwrap_or_default().trim());
    let sku = Sku::parse(sku).map_err(RowProblem::Sku)?;
    if title.is_empty() {
        return Err(RowProblem::NoTitle);
    }
    let cents = price.parse().ok().filter(|&cents: &u32| cents > 0);
    let cents = cents.ok_or_else(|| RowProblem::Price { found: price.into() })?;
    let pieces = match stock.parse::<i64>() {
        Ok(negative) if negative < 0 => return Err(RowProblem::NegativeStock { found: negative }),
        Ok(pieces) => u32::try_from(pieces).ok(),
        Err(_) => None,
    };
    let pieces = pieces.ok_or_else(|| RowProblem::Stock { found: stock.into() })?;
    let (price, stock) = (Cents::new(cents), Quantity::new(pieces));
    Ok(Product { sku, title: title.into(), category: category.into(), price, stock })
}

/// An error in a catalogue file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// The file cannot be read.
    #[error("could not read the catalogue {}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
    /// The first line lacks a column.
    #[error("the catalogue lacks the column `{column}`: its first line must name {}", COLUMNS.join(", "))]
    MissingColumn {
        /// Name of the missing column.
        column: &'static str,
    },
    /// A line is not a valid product.
    #[error("catalogue, line {line}: {problem}")]
    Row {
        /// Line number in the file, starting at 1. For a product that spans several lines, the first of them.
        line: u64,
        /// Problem with the line.
        problem: RowProblem,
    },
    /// The file has a header but no products.
    #[error("the catalogue contains no products: add at least one line below the header")]
    Empty,
}

/// A problem with one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowProblem {
    /// The product code is not valid.
    #[error(transparent)]
    Sku(SkuError),
    /// Another line has the same code.
    #[error("the SKU {sku} already appears on line {first}: give each product its own SKU")]
    Duplicate {
        /// The duplicate code.
        sku: Sku,
        /// Number of the first line with the code.
        first: u64,
    },
    /// The title is empty.
    #[error("the title is empty: give every product a title")]
    NoTitle,
    /// The price is not a positive number of cents.
    #[error("invalid price {found:?}: use a positive whole number of cents, such as 1290 for 12.90")]
    Price {
        /// Text of the field.
        found: String,
    },
    /// The stock is negative.
    #[error("negative stock {found}: use a whole number, 0 or greater")]
    NegativeStock {
        /// Value of the field.
        found: i64,
    },
    /// The stock is not a whole number.
    #[error("invalid stock {found:?}: use a whole number, 0 or greater")]
    Stock {
        /// Text of the field.
        found: String,
    },
    /// The line has more or fewer fields than the header.
    #[error("the line has {found} fields, but the header has {expected}: quote fields that contain commas")]
    Fields {
        /// Number of fields in the header.
        expected: u64,
        /// Number of fields in the line.
        found: u64,
    },
    /// The line is not UTF-8.
    #[error("the file is not valid UTF-8: save it in that encoding")]
    NotText,
}

impl From<csv::Error> for CatalogueError {
    fn from(e: csv::Error) -> Self {
        let line = e.position().map_or(1, csv::Position::line);
        let problem = match e.kind() {
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                RowProblem::Fields { expected: *expected_len, found: *len }
            }
            // The text is in memory, so no other error is possible.
            _ => RowProblem::NotText,
        };
        Self::Row { line, problem }
    }
}
