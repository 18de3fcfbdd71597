//! The lock holders over time, with one row per shop and one bar per hold.

use super::{BAD, BAND, GOOD, GRID, INK, draw, line, text};
use crate::report::{ReportError, ScenarioResult};
use plotters::{
    chart::ChartBuilder,
    coord::ranged1d::{IntoSegmentedCoord, SegmentValue},
    element::{Rectangle, Text},
    style::Color,
};
use std::collections::BTreeSet;

/// Minimum length of a hold that is labelled with its token, as a fraction of the total time.
const WIDE: f64 = 0.03;

pub(in crate::report) fn holders(title: &str, scenario: &ScenarioResult) -> Result<String, ReportError> {
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
        chart
            .configure_mesh()
            .disable_y_mesh()
            .axis_style(line(INK, 1))
            .bold_line_style(line(GRID, 1))
            .light_line_style(GRID.mix(0.0))
            .label_style(text(13.0))
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
        Ok::<_, plotters::drawing::DrawingAreaErrorKind<std::io::Error>>(())
    })
}
