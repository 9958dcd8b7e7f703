/** One plot over time, drawn by uPlot. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { offset } from "./format";

export interface PlotSeries {
  label: string;
  /** Name of a colour of the page. */
  colour: string;
  values: (number | null)[];
  kind: "line" | "points" | "steps" | "bars";
}

export interface PlotProps {
  title: string;
  /** Times since the beginning, in milliseconds, in order. */
  times: number[];
  series: PlotSeries[];
  format: (value: number) => string;
  /** Said to those who do not see the plot. */
  summary: string;
  most?: number;
  select?: (index: number) => void;
  theme: string;
}

/** Points that a plot draws; of more, every n-th. */
const MOST_POINTS = 4_000;

function thin<T>(values: T[], step: number): T[] {
  return step <= 1 ? values : values.filter((_, at) => at % step === 0);
}

export function Plot({ title, times, series, format, summary, most, select, theme }: PlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const legend = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const element = box.current!;
    const style = getComputedStyle(element);
    const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
    const step = Math.ceil(times.length / MOST_POINTS);
    const font = `11px ${style.fontFamily}`;
    const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1, size: 4 }, font };
    const steps = uPlot.paths.stepped!({ align: 1 });
    const bars = uPlot.paths.bars!({ size: [0.8, 14, 1] });
    const plot = new uPlot(
      {
        width: Math.max(200, element.clientWidth),
        height: 170,
        legend: { show: false },
        cursor: { y: false, drag: { x: true, y: false }, points: { size: 6 } },
        scales: { x: { time: false }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), most ?? Math.max(1e-9, (high ?? 1) * 1.08)] } },
        axes: [
          { ...axis, values: (_, splits) => splits.map((at) => (at === null ? "" : offset(at))), size: 26 },
          { ...axis, values: (_, splits) => splits.map((at) => (at === null ? "" : format(at))), size: 62 },
        ],
        series: [
          {},
          ...series.map(({ label, colour: name, kind }): uPlot.Series => ({
            label,
            stroke: colour(name),
            width: kind === "points" ? 0 : 1.5,
            fill: kind === "bars" ? colour(name) : undefined,
            paths: kind === "steps" ? steps : kind === "bars" ? bars : kind === "points" ? () => null : undefined,
            points: { show: kind === "points", size: 4, fill: colour(name), stroke: colour(name) },
            spanGaps: true,
          })),
        ],
        hooks: {
          setCursor: [(plot) => {
            const at = plot.cursor.idx;
            if (!legend.current) return;
            const time = at === null || at === undefined ? undefined : plot.data[0]![at];
            legend.current.textContent = time === undefined || at === null || at === undefined ? "" : [
              offset(time), ...series.map((line, index) => {
                const value = plot.data[index + 1]![at];
                return value === null || value === undefined ? "" : `${line.label} ${format(value)}`;
              }).filter(Boolean),
            ].join(" · ");
          }],
        },
      },
      [thin(times, step), ...series.map((line) => thin(line.values, step))] as uPlot.AlignedData,
      element,
    );
    const click = () => {
      const at = plot.cursor.idx;
      if (select && at !== null && at !== undefined) select(at * Math.max(1, step));
    };
    plot.over.addEventListener("click", click);
    const observer = new ResizeObserver(() => plot.setSize({ width: Math.max(200, element.clientWidth), height: 170 }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [times.length, theme, series.length]);
  return (
    <figure class="plot">
      <figcaption>
        <h3>{title}</h3>
        <span class="legend" aria-hidden="true">{series.map((line) => <span><i class="swatch" style={{ background: `var(--${line.colour})` }} />{line.label}</span>)}</span>
        <span ref={legend} class="muted reading" aria-hidden="true" />
      </figcaption>
      <div ref={box} role="img" aria-label={summary} />
    </figure>
  );
}
