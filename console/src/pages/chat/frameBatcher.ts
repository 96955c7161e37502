/** FrameBatcher: collects incoming items and delivers them once per paint of the browser. */

export class FrameBatcher<T> {
  private queue: T[] = [];
  private isScheduled = false;

  constructor(
    private readonly schedule: (run: () => void) => void,
    private readonly deliver: (batch: readonly T[]) => void,
  ) {}

  add(item: T): void {
    this.queue.push(item);
    if (this.isScheduled) return;
    this.isScheduled = true;
    this.schedule(() => this.flush());
  }

  flush(): void {
    this.isScheduled = false;
    const batch = this.queue;
    this.queue = [];
    if (batch.length > 0) this.deliver(batch);
  }
}

const HIDDEN_DELAY = 250;

/** Runs before the next paint. A hidden page does not paint, so it uses a timer instead. */
export function onNextPaint(run: () => void): void {
  if (document.hidden) setTimeout(run, HIDDEN_DELAY);
  else requestAnimationFrame(run);
}
