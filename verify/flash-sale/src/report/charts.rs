//! Charts as SVG. `style.css` selects elements by these colours and gives each a light and a dark variant.

use super::{ReportError, ScenarioResult, Spread, StockPoint, page::escape};
use crate::load::Latency;
use plotters::{
    backend::{DrawingBackend, SVGBackend},
    chart::{ChartBuilder, MeshStyle},
    coord::{
        Shift,
        combinators::IntoLogRange,
        ranged1d::{IntoSegmentedCoord, Ranged, SegmentValue},
    },
    drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea},
    element::{PathElement, Rectangle, Text},
    series::LineSeries,
    style::{Color, FontDesc, FontFamily, FontStyle, IntoFont, RGBColor, ShapeStyle, TextStyle},
};
use std::{collections::BTreeSet, io};

/// Minimum length of a hold that is labelled with its token, as a fraction of the total time.
const WIDE: f64 = 0.03;
/// Height of a bar with its margins.
const HEIGHT: u32 = 28;

const INK: RGBColor = RGBColor(0x11, 0x11, 0x11);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
pub(super) const GOOD: RGBColor = RGBColor(0x00, 0x72, 0xb2);
pub(super) const BAD: RGBColor = RGBColor(0xd5, 0x2e, 0x00);
const BAND: RGBColor = RGBColor(0xff, 0xe0, 0xb3);
/// Colours of the curves, the classes `c0` to `c4` in the page's legend.
pub(super) const CURVES: [RGBColor; 5] = [
    GOOD,
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x80, 0x80, 0x81),
];

/// Draws the stock and the units sold over time, with the times at which faults were active.
pub(super) fn stock(title: &str, scenario: &ScenarioResult) -> Result<String, ReportError> {
    let seconds = |ms: u64| ms as f64 / 1e3;
    let end = scenario.stock.last().map_or(1, |point| point.ms);
    let end = scenario.faults.iter().map(|fault| fault.to_ms).fold(end, u64::max);
    let most =
        scenario.stock.iter().map(|point| point.sold.max(point.stock)).fold(scenario.initial, i64::max);
    let most = most as f64 * 1.05 + 1.0;
    draw((760, 280), title, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..seconds(end).max(0.1), 0.0..most)?;
        let bands = scenario.faults.iter().map(|fault| {
            Rectangle::new([(seconds(fault.from_ms), 0.0), (seconds(fault.to_ms), most)], BAND.filled())
        });
        chart.draw_series(bands)?;
        let mut mesh = chart.configure_mesh();
        set_style(&mut mesh).x_desc("seconds").y_desc("units").draw()?;
        let initial = scenario.initial as f64;
        let limit = vec![(0.0, initial), (seconds(end), initial)];
        chart.draw_series([PathElement::new(limit, line(INK, 1))])?;
        let points = |value: fn(&StockPoint) -> i64| {
            scenario.stock.iter().map(move |point| (seconds(point.ms), value(point) as f64))
        };
        chart.draw_series(LineSeries::new(points(|point| point.stock), line(GOOD, 2)))?;
        chart.draw_series(LineSeries::new(points(|point| point.sold), line(BAD, 2)))?;
        Ok(())
    })
}

/// Draws the lock holders over time, with one row per shop and one bar per hold.
pub(super) fn holders(title: &str, scenario: &ScenarioResult) -> Result<String, ReportError> {
    let seconds = |ms: u64| ms as f64 / 1e3;
    let shops: Vec<_> =
        scenario.holds.iter().map(|hold| hold.server.as_str()).collect::<BTreeSet<_>>().into_iter().collect();
    let (count, end) = (shops.len(), scenario.holds.iter().map(|hold| hold.to_ms).fold(1, u64::max));
    let height = 60 + 44 * u32::try_from(count).unwrap_or(1);
    draw((760, height), title, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(40)
            .y_label_area_size(130)
            .build_cartesian_2d(0.0..seconds(end), (0..count).into_segmented())?;
        let bands = scenario.faults.iter().map(|fault| {
            let (from, to) = (seconds(fault.from_ms), seconds(fault.to_ms.min(end)));
            Rectangle::new([(from, SegmentValue::Exact(0)), (to, SegmentValue::Exact(count))], BAND.filled())
        });
        chart.draw_series(bands)?;
        let mut mesh = chart.configure_mesh();
        set_style(&mut mesh)
            .disable_y_mesh()
            .x_desc("seconds")
            .y_labels(count)
            .y_label_formatter(&|value| match value {
                SegmentValue::CenterOf(index) => shops.get(*index).map_or(String::new(), ToString::to_string),
                _ => String::new(),
            })
            .draw()?;
        for hold in &scenario.holds {
            let Some(row) = shops.iter().position(|shop| *shop == hold.server) else { continue };
            let (from, to) = (seconds(hold.from_ms), seconds(hold.to_ms));
            let color = if hold.is_stale { BAD } else { GOOD };
            let corners = [(from, SegmentValue::Exact(row)), (to, SegmentValue::Exact(row + 1))];
            let mut shape = Rectangle::new(corners, color.filled());
            shape.set_margin(8, 8, 0, 0);
            chart.draw_series([shape])?;
            if to - from >= seconds(end) * WIDE {
                let label = format!("{}", hold.token);
                let place = (from, SegmentValue::Exact(row + 1));
                chart.draw_series([Text::new(label, place, text(12.0))])?;
            }
        }
        Ok(())
    })
}

/// A curve. Its position determines its colour.
#[derive(Debug, Clone, Copy)]
pub(super) struct Curve<'a> {
    pub(super) latency: &'a Latency,
}

/// Draws cumulative distributions of latencies on a logarithmic axis.
pub(super) fn distribution(title: &str, curves: &[Curve<'_>]) -> Result<String, ReportError> {
    let points = || curves.iter().flat_map(|curve| &curve.latency.distribution).map(|point| point.ms);
    let first = points().fold(f64::INFINITY, f64::min).clamp(0.01, 1e6);
    let last = points().fold(0.0, f64::max).max(first * 10.0);
    draw((760, 320), title, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d((first..last).log_scale(), 0.0..1.0)?;
        let mut mesh = chart.configure_mesh();
        set_style(&mut mesh)
            .x_desc("latency, ms")
            .x_label_formatter(&|ms| if *ms < 10.0 { format!("{ms:.1}") } else { format!("{ms:.0}") })
            .y_label_formatter(&|fraction| format!("{:.0} %", fraction * 100.0))
            .draw()?;
        for (curve, color) in curves.iter().zip(CURVES.iter().cycle()) {
            let points = curve.latency.distribution.iter().map(|point| (point.ms.max(first), point.fraction));
            chart.draw_series(LineSeries::new(points, line(*color, 2)))?;
        }
        Ok(())
    })
}

/// One bar.
#[derive(Debug, Clone)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) range: Option<Spread>,
    pub(super) color: RGBColor,
}

/// Draws horizontal bars, one per name, with the range if there are several runs.
pub(super) fn bars(title: &str, unit: &str, bars: &[Bar]) -> Result<String, ReportError> {
    let count = bars.len();
    let height = 60 + HEIGHT * u32::try_from(count).unwrap_or(u32::MAX / HEIGHT / 2);
    let end = |bar: &Bar| bar.range.map_or(bar.value, |range| range.max).max(bar.value);
    let longest = bars.iter().map(end).fold(1.0, f64::max) * 1.12;
    draw((760, height), title, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .set_left_and_bottom_label_area_size(38)
            .y_label_area_size(190)
            .build_cartesian_2d(0.0..longest, (0..count).into_segmented())?;
        let mut mesh = chart.configure_mesh();
        set_style(&mut mesh)
            .disable_y_mesh()
            .x_desc(unit)
            .x_labels(6)
            .y_labels(count)
            .y_label_formatter(&|value| match value {
                // The first bar is at the top.
                SegmentValue::CenterOf(index) if *index < count => bars[count - 1 - index].name.clone(),
                _ => String::new(),
            })
            .draw()?;
        for (index, bar) in bars.iter().enumerate() {
            let row = count - 1 - index;
            let (bottom, top) = (SegmentValue::Exact(row), SegmentValue::Exact(row + 1));
            let middle = SegmentValue::CenterOf(row);
            let mut shape = Rectangle::new([(0.0, bottom), (bar.value, top)], bar.color.filled());
            shape.set_margin(5, 5, 0, 0);
            chart.draw_series([shape])?;
            if let Some(range) = bar.range.filter(|range| range.runs > 1) {
                let path = vec![(range.min, middle.clone()), (range.max, middle.clone())];
                chart.draw_series([PathElement::new(path, line(INK, 2))])?;
            }
            let label = format!(" {:.0}", bar.value);
            let style = text(13.0);
            chart.draw_series([Text::new(label, (end(bar), middle), style)])?;
        }
        Ok(())
    })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws on an area of this size. The result scales with the page.
fn draw(
    size: (u32, u32),
    title: &str,
    paint: impl FnOnce(&Area<'_>) -> Result<(), DrawingAreaErrorKind<io::Error>>,
) -> Result<String, ReportError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        paint(&area).map_err(|error| ReportError::Chart(error.to_string()))?;
        area.present().map_err(|error| ReportError::Chart(error.to_string()))?;
    }
    // A label for screen readers.
    let label = format!("<svg role=\"img\" aria-label=\"{}\" ", escape(title));
    Ok(svg.replacen("<svg ", &label, 1))
}

fn text(size: f64) -> TextStyle<'static> {
    FontDesc::new(FontFamily::SansSerif, size, FontStyle::Normal).into_font().color(&INK)
}

fn line(color: RGBColor, width: u32) -> ShapeStyle {
    color.stroke_width(width)
}

/// Gives the axes and the grid of a chart the style of the page.
fn set_style<'m, 'a, 'b, X: Ranged, Y: Ranged, B: DrawingBackend>(
    mesh: &'m mut MeshStyle<'a, 'b, X, Y, B>,
) -> &'m mut MeshStyle<'a, 'b, X, Y, B> {
    mesh.axis_style(line(INK, 1))
        .bold_line_style(line(GRID, 1))
        .light_line_style(GRID.mix(0.0))
        .label_style(text(13.0))
}
