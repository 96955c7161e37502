/** Pace: collects what comes in, and hands it on once for each picture that the browser draws. */

export class Pace<T> {
  private waiting: T[] = [];
  private isDue = false;

  constructor(
    private readonly soon: (run: () => void) => void,
    private readonly take: (batch: readonly T[]) => void,
  ) {}

  add(one: T): void {
    this.waiting.push(one);
    if (this.isDue) return;
    this.isDue = true;
    this.soon(() => this.flush());
  }

  flush(): void {
    this.isDue = false;
    const batch = this.waiting;
    this.waiting = [];
    if (batch.length > 0) this.take(batch);
  }
}

const HIDDEN_MILLISECONDS = 250;

/** With the next picture. A page that nobody sees has none, and is to keep up all the same. */
export function nextPicture(run: () => void): void {
  if (document.hidden) setTimeout(run, HIDDEN_MILLISECONDS);
  else requestAnimationFrame(run);
}
