use lock_inventory_demo::catalogue::{CatalogueError, DEFAULT, parse, read};
use std::{collections::BTreeSet, error::Error};

const HEADER: &str = "sku,title,category,price_cents,stock";

fn refusal(text: &str) -> String {
    parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn the_built_in_catalogue_is_realistic() {
    let catalogue = parse(DEFAULT.as_bytes()).unwrap();
    assert!(catalogue.products().len() >= 300);
    let titles: BTreeSet<_> = catalogue.products().iter().map(|product| &product.title).collect();
    assert_eq!(titles.len(), catalogue.products().len(), "product titles must be unique");
    assert!(
        catalogue.products().iter().all(|product| !product.category.is_empty() && product.stock.get() > 0)
    );
}

#[test]
fn a_bad_row_is_reported_with_its_line_and_a_remedy() {
    let cases = [
        (",Tea,Drinks,500,3", "line 3: the SKU is empty: every product needs one"),
        ("A B,Tea,Drinks,500,3", "line 3: the SKU contains ' ': use ASCII letters"),
        ("A-1,Tea,Drinks,500,3", "line 3: the SKU A-1 already appears on line 2: give each product its own"),
        ("B-1, ,Drinks,500,3", "line 3: the title is empty"),
        ("B-1,Tea,Drinks,5.00,3", "line 3: invalid price \"5.00\": use a positive whole number of cents"),
        ("B-1,Tea,Drinks,0,3", "line 3: invalid price \"0\""),
        ("B-1,Tea,Drinks,-5,3", "line 3: invalid price \"-5\""),
        ("B-1,Tea,Drinks,,3", "line 3: invalid price \"\""),
        ("B-1,Tea,Drinks,500,-1", "line 3: negative stock -1: use a whole number, 0 or greater"),
        ("B-1,Tea,Drinks,500,many", "line 3: invalid stock \"many\": use a whole number"),
        ("B-1,Tea,Drinks,500,5000000000", "line 3: invalid stock \"5000000000\""),
        ("B-1,Tea,Drinks,500", "line 3: the line has 4 fields, but the header has 5"),
        ("B-1,Tea, green,Drinks,500,3", "line 3: the line has 6 fields, but the header has 5: quote"),
    ];
    for (row, expected) in cases {
        let refusal = refusal(&format!("{HEADER}\nA-1,Coffee,Drinks,1290,84\n{row}\n"));
        assert!(refusal.contains(expected), "`{row}`: expected `{expected}`, got `{refusal}`");
    }
}

#[test]
fn a_title_that_spans_lines_does_not_shift_the_line_numbers() {
    let refusal =
        refusal(&format!("{HEADER}\nA-1,\"Coffee,\nwhole bean\",Drinks,1290,84\nB-1,Tea,Drinks,no,3\n"));
    assert!(refusal.starts_with("catalogue, line 4: invalid price"), "{refusal}");
}

#[test]
fn text_in_another_encoding_is_reported_with_its_line() {
    let mut text = format!("{HEADER}\nA-1,Coffee,Drinks,1290,84\nB-1,").into_bytes();
    text.extend(b"K\xe4se,Food,900,3\n");
    let refusal = parse(&text).unwrap_err().to_string();
    assert!(refusal.contains("line 3: the file is not valid UTF-8"), "{refusal}");
}

#[test]
fn a_file_without_a_column_or_without_products_is_refused() {
    let missing = refusal("sku,title,category,price,stock\nA-1,Coffee,Drinks,1290,84\n");
    assert!(missing.contains("lacks the column `price_cents`"), "{missing}");
    assert!(refusal("").contains("lacks the column `sku`"));
    assert!(refusal(HEADER).contains("no products: add at least one line"));
}

#[test]
fn columns_can_have_any_order_and_extras_are_ignored() {
    let text =
        "stock,colour,sku,price_cents,category,title\r\n84,black,A-1,1290,Drinks,\"Coffee, ground\"\r\n";
    let catalogue = parse(text.as_bytes()).unwrap();
    let product = &catalogue.products()[0];
    assert_eq!(
        (product.title.as_str(), product.price.get(), product.stock.get()),
        ("Coffee, ground", 1290, 84)
    );
}

#[test]
fn a_missing_file_is_named() {
    let error = read("no/such/file.csv".as_ref()).unwrap_err();
    assert!(matches!(error, CatalogueError::Unreadable { .. }));
    assert!(error.to_string().contains("no/such/file.csv") && error.source().is_some());
}
