/** The numbers of the events of one stream: which came, which came twice, and which are missing. */

import { short, type Fields } from "./fields";

/** Events whose times are kept, to know a stream that comes again. */
const REMEMBERED = 2_000;

/** The seen sequence numbers of one stream: sorted, disjoint ranges. */
class SeenNumbers {
  readonly ranges: [number, number][] = [];

  /** Returns `false` if the number was seen before. */
  add(number: number): boolean {
    const last = this.ranges.at(-1);
    if (!last || number > last[1] + 1) {
      this.ranges.push([number, number]);
      return true;
    }
    if (number === last[1] + 1) {
      last[1] = number;
      return true;
    }
    // The first range that ends at the number before this one or later; the number is next to it, in it, or in front of it.
    let at = 0;
    for (let end = this.ranges.length - 1; at < end; ) {
      const middle = (at + end) >> 1;
      if (this.ranges[middle]![1] < number - 1) at = middle + 1;
      else end = middle;
    }
    const range = this.ranges[at]!;
    if (number < range[0] - 1) {
      this.ranges.splice(at, 0, [number, number]);
      return true;
    }
    if (number >= range[0] && number <= range[1]) return false;
    if (number < range[0]) range[0] = number;
    else range[1] = number;
    const next = this.ranges[at + 1];
    if (next && next[0] === range[1] + 1) {
      range[1] = next[1];
      this.ranges.splice(at + 1, 1);
    }
    return true;
  }
}

export class StreamNumbers {
  private readonly seen = new SeenNumbers();
  /** Times of the first and the newest events by their numbers. */
  private readonly times = new Map<number, string>();
  /** The events with the highest number. */
  private newest: Fields[] = [];

  /** The highest number; 0 before the first. */
  get last(): number {
    return this.seen.ranges.at(-1)?.[1] ?? 0;
  }

  /** Returns `true` if an event of this number came at this time. */
  knows(number: number, time: string): boolean {
    return this.times.get(number) === time;
  }

  /**
   * Notes an event. Returns `false` if it came before. Two events may share a number: a piece of a reply that was held back has
   * that of the event before which it is sent.
   */
  add(number: number, time: string, event: Fields): boolean {
    this.remember(number, time);
    if (this.seen.add(number)) {
      if (number === this.last) this.newest = [event];
      return true;
    }
    if (number !== this.last) return false;
    const json = JSON.stringify(event);
    if (this.newest.some((other) => JSON.stringify(other) === json)) return false;
    this.newest.push(event);
    return true;
  }

  /** The missing numbers between those that came: the first and the last of each range. */
  gaps(): [number, number][] {
    const { ranges } = this.seen;
    return ranges.slice(1).map(([from], at) => [ranges[at]![1] + 1, from - 1]);
  }

  private remember(number: number, time: string): void {
    if (this.times.has(number)) return;
    this.times.set(number, short(time, 40));
    if (this.times.size <= REMEMBERED) return;
    // The first one stays: a reader that gets all again begins with it.
    const keys = this.times.keys();
    keys.next();
    const second = keys.next().value;
    if (second !== undefined) this.times.delete(second);
  }
}
