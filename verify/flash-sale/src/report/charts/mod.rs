//! Charts as SVG. `style.css` selects elements by these colours and gives each a light and a dark variant.

mod bars;
mod distribution;
mod holders;
mod stock;

pub(super) use bars::{Bar, bars};
pub(super) use distribution::{Curve, distribution};
pub(super) use holders::holders;
pub(super) use stock::stock;

use super::ReportError;
use plotters::{
    backend::SVGBackend,
    coord::Shift,
    drawing::{DrawingArea, IntoDrawingArea},
    style::{Color, FontDesc, FontFamily, FontStyle, IntoFont, RGBColor, ShapeStyle, TextStyle},
};

use std::fmt;

pub(super) const INK: RGBColor = RGBColor(0x11, 0x11, 0x11);
pub(super) const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
pub(super) const GOOD: RGBColor = RGBColor(0x00, 0x72, 0xb2);
pub(super) const BAD: RGBColor = RGBColor(0xd5, 0x2e, 0x00);
pub(super) const BAND: RGBColor = RGBColor(0xff, 0xe0, 0xb3);
/// Colours of the curves, the classes `c0` to `c4` in the page's legend.
pub(super) const CURVES: [RGBColor; 5] = [
    GOOD,
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x80, 0x80, 0x81),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws on an area of this size. The result scales with the page.
fn draw<E: fmt::Display>(
    size: (u32, u32),
    title: &str,
    paint: impl FnOnce(&Area<'_>) -> Result<(), E>,
) -> Result<String, ReportError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        paint(&area).map_err(|error| ReportError::Chart(error.to_string()))?;
        area.present().map_err(|error| ReportError::Chart(error.to_string()))?;
    }
    // A label for screen readers.
    let label = format!("<svg role=\"img\" aria-label=\"{}\" ", super::html::escape(title));
    Ok(svg.replacen("<svg ", &label, 1))
}

fn text(size: f64) -> TextStyle<'static> {
    FontDesc::new(FontFamily::SansSerif, size, FontStyle::Normal).into_font().color(&INK)
}

fn line(color: RGBColor, width: u32) -> ShapeStyle {
    color.stroke_width(width)
}
