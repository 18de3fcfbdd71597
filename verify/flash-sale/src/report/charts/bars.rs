//! Horizontal bars, one per name, with the range if there are several runs.

use super::{GRID, INK, draw, line, text};
use crate::report::{ReportError, Spread};
use plotters::{
    chart::ChartBuilder,
    coord::ranged1d::{IntoSegmentedCoord, SegmentValue},
    element::{PathElement, Rectangle, Text},
    style::{Color, RGBColor},
};

/// One bar.
#[derive(Debug, Clone)]
pub(in crate::report) struct Bar {
    pub(in crate::report) name: String,
    pub(in crate::report) value: f64,
    pub(in crate::report) range: Option<Spread>,
    pub(in crate::report) color: RGBColor,
}

const HEIGHT: u32 = 28;

pub(in crate::report) fn bars(title: &str, unit: &str, bars: &[Bar]) -> Result<String, ReportError> {
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
        chart
            .configure_mesh()
            .disable_y_mesh()
            .axis_style(line(INK, 1))
            .bold_line_style(line(GRID, 1))
            .light_line_style(GRID.mix(0.0))
            .label_style(text(13.0))
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
        Ok::<_, plotters::drawing::DrawingAreaErrorKind<std::io::Error>>(())
    })
}
