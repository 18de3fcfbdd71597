//! The stock and the units sold over time, with the times at which faults were active.

use super::{BAD, BAND, GOOD, GRID, INK, draw, line, text};
use crate::report::{ReportError, ScenarioResult};
use plotters::{
    chart::ChartBuilder,
    element::{PathElement, Rectangle},
    series::LineSeries,
    style::Color,
};

pub(in crate::report) fn stock(title: &str, scenario: &ScenarioResult) -> Result<String, ReportError> {
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
        chart
            .configure_mesh()
            .axis_style(line(INK, 1))
            .bold_line_style(line(GRID, 1))
            .light_line_style(GRID.mix(0.0))
            .label_style(text(13.0))
            .x_desc("seconds")
            .y_desc("units")
            .draw()?;
        let initial = scenario.initial as f64;
        let limit = vec![(0.0, initial), (seconds(end), initial)];
        chart.draw_series([PathElement::new(limit, line(INK, 1))])?;
        let points = |value: fn(&crate::report::StockPoint) -> i64| {
            scenario.stock.iter().map(move |point| (seconds(point.ms), value(point) as f64))
        };
        chart.draw_series(LineSeries::new(points(|point| point.stock), line(GOOD, 2)))?;
        chart.draw_series(LineSeries::new(points(|point| point.sold), line(BAD, 2)))?;
        Ok::<_, plotters::drawing::DrawingAreaErrorKind<std::io::Error>>(())
    })
}
