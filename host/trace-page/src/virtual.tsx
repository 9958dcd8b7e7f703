/** A list of rows of one height that draws only those in view. */

import type { ComponentChildren } from "preact";
import { useCallback, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Browsers draw no element that is much higher: beyond that, the scroll bar moves over more than its own distance. */
const HIGHEST = 8_000_000;
/** Rows that are drawn above and below those in view. */
const MARGIN = 8;

/** Where a row stands. */
export type RowStyle = { transform?: string; height?: string };

export interface VirtualProps {
  count: number;
  height: number;
  /** Row that is kept in view; -1: none. */
  current: number;
  /** The last row is kept in view. */
  follows?: boolean;
  label: string;
  /** Id of the element of the current row. */
  active?: string;
  onKeyDown?: (event: KeyboardEvent) => void;
  row: (index: number, style: RowStyle) => ComponentChildren;
}

export function VirtualList({ count, height, current, follows, label, active, onKeyDown, row }: VirtualProps) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [view, setView] = useState(600);
  const whole = count * height;
  const total = Math.min(whole, HIGHEST);
  const ratio = total > view ? (whole - view) / (total - view) : 1;
  const from = top * ratio;

  const measure = useCallback(() => {
    if (box.current) setView(box.current.clientHeight || 600);
  }, []);
  useLayoutEffect(() => {
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element || current < 0) return;
    const y = current * height;
    const begin = element.scrollTop * ratio;
    if (y < begin) element.scrollTop = y / ratio;
    else if (y + height > begin + element.clientHeight) element.scrollTop = (y + height - element.clientHeight) / ratio;
  }, [current, count === 0]);

  useLayoutEffect(() => {
    if (follows && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [follows, count]);

  const first = Math.max(0, Math.floor(from / height) - MARGIN);
  const last = Math.min(count, Math.ceil((from + view) / height) + MARGIN);
  const rows: ComponentChildren[] = [];
  for (let index = first; index < last; index += 1) {
    const y = ratio === 1 ? index * height : Math.round(top + index * height - from);
    rows.push(row(index, { transform: `translateY(${y}px)`, height: `${height}px` }));
  }
  const hasActive = current >= first && current < last;
  return (
    <div
      ref={box} class="virtual" role="tree" tabIndex={0} aria-label={label}
      aria-activedescendant={hasActive ? active : undefined}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)} onKeyDown={onKeyDown}
    >
      <div class="virtual-space" role="none" style={{ height: `${total}px` }}>{rows}</div>
    </div>
  );
}
