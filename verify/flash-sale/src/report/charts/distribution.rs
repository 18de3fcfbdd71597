//! Cumulative distributions of latencies on a logarithmic axis.

use super::{CURVES, GRID, INK, draw, line, text};
use crate::{load::Latency, report::ReportError};
use plotters::{chart::ChartBuilder, coord::combinators::IntoLogRange, series::LineSeries, style::Color};

/// A curve. Its position determines its colour.
#[derive(Debug, Clone, Copy)]
pub(in crate::report) struct Curve<'a> {
    pub(in crate::report) latency: &'a Latency,
}

pub(in crate::report) fn distribution(title: &str, curves: &[Curve<'_>]) -> Result<String, ReportError> {
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
        chart
            .configure_mesh()
            .axis_style(line(INK, 1))
            .bold_line_style(line(GRID, 1))
            .light_line_style(GRID.mix(0.0))
            .label_style(text(13.0))
            .x_desc("latency, ms")
            .x_label_formatter(&|ms| if *ms < 10.0 { format!("{ms:.1}") } else { format!("{ms:.0}") })
            .y_label_formatter(&|fraction| format!("{:.0} %", fraction * 100.0))
            .draw()?;
        for (curve, color) in curves.iter().zip(CURVES.iter().cycle()) {
            let points = curve.latency.distribution.iter().map(|point| (point.ms.max(first), point.fraction));
            chart.draw_series(LineSeries::new(points, line(*color, 2)))?;
        }
        Ok::<_, plotters::drawing::DrawingAreaErrorKind<std::io::Error>>(())
    })
}
