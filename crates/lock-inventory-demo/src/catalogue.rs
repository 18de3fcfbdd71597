//! Reads a catalogue from CSV: the result is a valid [`Catalogue`], or one sentence with the number of a line.

use crate::domain::{Catalogue, CatalogueRule, Cents, Product, Quantity, Sku, SkuError};
use csv::{ReaderBuilder, StringRecord};
use std::{
    io,
    path::{Path, PathBuf},
};

/// The catalogue that comes with the program.
pub const DEFAULT: &str = include_str!("../data/catalogue.csv");

/// The columns that a file needs, in any order; others are left alone.
pub const COLUMNS: [&str; 5] = ["sku", "title", "category", "price_cents", "stock"];

/// Reads the file at `path`.
///
/// # Errors
/// [`CatalogueError`] when it cannot be read or is no catalogue.
pub fn read(path: &Path) -> Result<Catalogue, CatalogueError> {
    let unreadable = |source| CatalogueError::Unreadable { path: path.into(), source };
    // Bytes first: a wrong encoding is then told with its line.
    parse(&std::fs::read(path).map_err(unreadable)?)
}

/// Reads CSV text.
///
/// # Errors
/// [`CatalogueError`] when it is no catalogue.
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

/// Why a file is no catalogue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// The file cannot be read.
    #[error("could not read the catalogue {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The first line lacks a column.
    #[error("the catalogue has no column `{column}`: its first line must name {}", COLUMNS.join(", "))]
    MissingColumn {
        /// Which.
        column: &'static str,
    },
    /// A line is no product.
    #[error("catalogue, line {line}: {problem}")]
    Row {
        /// The line in the file, from 1; a product that spans lines counts by its first.
        line: u64,
        /// What is wrong with it.
        problem: RowProblem,
    },
    /// There is a header and no product.
    #[error("the catalogue has no product: add at least one line below the header")]
    Empty,
}

/// What is wrong with one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowProblem {
    /// The code is none.
    #[error(transparent)]
    Sku(SkuError),
    /// Another line has the same code.
    #[error("the sku {sku} is already on line {first}: give each product its own")]
    Duplicate {
        /// The code.
        sku: Sku,
        /// The line that had it first.
        first: u64,
    },
    /// The title is empty.
    #[error("the title is empty: give every product one")]
    NoTitle,
    /// The price is no positive number of cents.
    #[error("the price {found:?} is not a whole, positive number of cents: write 1290 for 12.90")]
    Price {
        /// What stands there.
        found: String,
    },
    /// The stock is negative.
    #[error("the stock {found} is negative: write 0 or more")]
    NegativeStock {
        /// What stands there.
        found: i64,
    },
    /// The stock is no number of pieces.
    #[error("the stock {found:?} is not a whole number: write 0 or more")]
    Stock {
        /// What stands there.
        found: String,
    },
    /// The line has more or fewer fields than the header.
    #[error("there are {found} fields where the header has {expected}: put quotes around commas")]
    Fields {
        /// How many the header has.
        expected: u64,
        /// How many the line has.
        found: u64,
    },
    /// The line is not UTF-8.
    #[error("the text is not UTF-8: save the file in that encoding")]
    NotText,
}

impl From<csv::Error> for CatalogueError {
    fn from(e: csv::Error) -> Self {
        let line = e.position().map_or(1, csv::Position::line);
        let problem = match e.kind() {
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                RowProblem::Fields { expected: *expected_len, found: *len }
            }
            // The text is in memory: nothing else can go wrong with it.
            _ => RowProblem::NotText,
        };
        Self::Row { line, problem }
    }
}
