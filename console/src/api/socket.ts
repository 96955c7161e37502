/**
 * Stream: turns over one WebSocket, which comes back by itself and resumes each turn after the last frame it has.
 *
 * Must not know the page, nor what frames mean beyond their order. The socket and the clock are given, for tests.
 */

import { frameIn, type AskBody, type ClientFrame, type Failed, type Frame } from "./frames";
import { OWN_CODES, type Problem } from "./result";
import type { JsonObject } from "./types";

export type Link = "idle" | "connecting" | "open" | "waiting";

export interface Listener {
  /** Each frame of the turn once, in order. */
  frame(frame: Frame): void;
  /** The turn cannot be followed any more; no frame comes after it. */
  lost(problem: Problem): void;
}

export interface SocketLike {
  send(text: string): void;
  close(): void;
}

export interface SocketEvents {
  opened(): void;
  heard(text: string): void;
  closed(): void;
}

export interface Surroundings {
  /** A connection that is being made. What happens to it is told later, never before this returns. */
  connect(events: SocketEvents): SocketLike;
  later(milliseconds: number, run: () => void): void;
  now(): number;
  link(state: Link): void;
}

/** A turn as whoever asked holds it. */
export interface Turn {
  readonly ref: string;
  cancel(): void;
}

interface Followed {
  readonly ref: string;
  readonly listener: Listener;
  readonly body: AskBody;
  turn: string;
  seq: number;
  isAsked: boolean;
  isCancelled: boolean;
}

const FIRST_WAIT = 400;
const LONGEST_WAIT = 8_000;
/** As long as a gateway keeps a turn that nobody reads, unless it is set up otherwise. */
const PATIENCE = 120_000;
const LAST = new Set(["done", "error"]);

export class Stream {
  private socket: SocketLike | null = null;
  private isOpen = false;
  private followed: Followed[] = [];
  private waitingForWord = new Map<string, (problem: Problem) => void>();
  private unsent: ClientFrame[] = [];
  private count = 0;
  private tries = 0;
  private lostAt = 0;
  private isRetrying = false;

  constructor(private readonly around: Surroundings) {}

  ask(body: AskBody, listener: Listener): Turn {
    const one: Followed = {
      ref: this.newRef("ask"),
      listener,
      body,
      turn: "",
      seq: 0,
      isAsked: false,
      isCancelled: false,
    };
    this.followed.push(one);
    if (this.isOpen) this.sendAsk(one);
    else this.open();
    return { ref: one.ref, cancel: () => this.cancel(one) };
  }

  /** `refused` is told why a word was not taken. That it was taken shows in the turn's frames. */
  confirm(
    approval: string,
    word: { approve: boolean; why?: string; arguments?: JsonObject },
    refused: (problem: Problem) => void,
  ): void {
    if (!this.isOpen) {
      refused(lost("There is no connection now.", "It is tried again; then say it again."));
      return;
    }
    const ref = this.newRef("confirm");
    this.waitingForWord.set(ref, refused);
    this.send({ type: "confirm", approval, ...word, ref });
  }

  /** For when the key changes, or the page goes: every turn is let go of. */
  close(): void {
    const socket = this.socket;
    this.followed = [];
    this.forgetWords();
    this.unsent = [];
    this.socket = null;
    this.isOpen = false;
    this.around.link("idle");
    socket?.close();
  }

  private cancel(one: Followed): void {
    if (!this.followed.includes(one)) return;
    one.isCancelled = true;
    if (one.turn) this.send({ type: "cancel", turn: one.turn, ref: this.newRef("cancel") });
    else if (!one.isAsked) this.lose(one, { code: "cancelled", message: "Stopped.", hint: "", status: 0 });
  }

  private send(frame: ClientFrame): void {
    if (this.isOpen && this.socket) this.socket.send(JSON.stringify(frame));
    else {
      this.unsent.push(frame);
      this.open();
    }
  }

  private sendAsk(one: Followed): void {
    one.isAsked = true;
    this.send({ type: "ask", body: one.body, api: "openai", ref: one.ref });
  }

  private open(): void {
    if (this.socket || this.isRetrying) return;
    this.around.link("connecting");
    // A connection that was given up may still have something to say; nobody listens to it.
    const isCurrent = (): boolean => socket === this.socket;
    const socket = this.around.connect({
      opened: () => isCurrent() && this.opened(),
      heard: (text) => isCurrent() && this.heard(text),
      closed: () => isCurrent() && this.closed(),
    });
    this.socket = socket;
  }

  private opened(): void {
    this.isOpen = true;
    this.tries = 0;
    this.lostAt = 0;
    this.around.link("open");
    for (const one of this.followed) {
      if (one.turn) this.resume(one);
      else if (!one.isAsked) this.sendAsk(one);
    }
    const unsent = this.unsent;
    this.unsent = [];
    for (const frame of unsent) this.send(frame);
  }

  private closed(): void {
    const wasOpen = this.isOpen;
    this.socket = null;
    this.isOpen = false;
    // Whether the gateway has heard these, nobody knows; asking again by itself might do a thing twice.
    for (const one of this.followed.filter((turn) => turn.isAsked && !turn.turn)) {
      this.lose(one, lost("The connection broke before the answer began.", "It may have been heard: see Traces."));
    }
    this.forgetWords();
    if (wasOpen || !this.lostAt) this.lostAt = this.around.now();
    if (this.followed.length === 0) {
      this.unsent = [];
      this.lostAt = 0;
      this.tries = 0;
      this.around.link("idle");
      return;
    }
    if (this.around.now() - this.lostAt > PATIENCE) {
      for (const one of [...this.followed]) {
        this.lose(one, lost("The gateway cannot be reached.", "What was done is in the ledger: see Traces."));
      }
      this.unsent = [];
      this.around.link("idle");
      return;
    }
    this.isRetrying = true;
    this.around.link("waiting");
    const wait = Math.min(FIRST_WAIT * 2 ** this.tries, LONGEST_WAIT);
    this.tries += 1;
    this.around.later(wait, () => {
      this.isRetrying = false;
      if (this.followed.length > 0) this.open();
      else this.around.link("idle");
    });
  }

  private resume(one: Followed): void {
    this.send({ type: "resume", turn: one.turn, after: one.seq, ref: one.ref });
  }

  private heard(text: string): void {
    const frame = frameIn(text);
    if (frame === null || frame.type === "keep_alive") return;
    if (frame.turn === "") {
      if (frame.type === "error") this.refused(frame);
      return;
    }
    const one = this.of(frame);
    if (!one || frame.seq <= one.seq) return;
    if (frame.seq > one.seq + 1) {
      this.resume(one);
      return;
    }
    one.seq = frame.seq;
    if (LAST.has(frame.type)) this.followed = this.followed.filter((other) => other !== one);
    one.listener.frame(frame);
    // What was cancelled before the gateway had named it is cancelled now.
    if (frame.type === "started" && one.isCancelled) this.cancel(one);
  }

  private of(frame: Frame): Followed | undefined {
    if (frame.type === "started" && frame.ref) {
      const asked = this.followed.find((one) => one.ref === frame.ref && !one.turn);
      if (asked) asked.turn = frame.turn;
    }
    return this.followed.find((one) => one.turn === frame.turn);
  }

  /** An error that belongs to no turn: a frame of ours was not taken. */
  private refused(frame: Failed): void {
    const problem: Problem = { code: frame.code, message: frame.message, hint: frame.hint ?? "", status: 0 };
    const word = this.waitingForWord.get(frame.ref ?? "");
    if (word) {
      this.waitingForWord.delete(frame.ref ?? "");
      word(problem);
      return;
    }
    const one = this.followed.find((turn) => turn.ref === frame.ref);
    if (one) this.lose(one, problem);
    else if (frame.code === "turn_taken" && this.followed.length === 1) this.lose(this.followed[0]!, problem);
  }

  private lose(one: Followed, problem: Problem): void {
    this.followed = this.followed.filter((other) => other !== one);
    one.listener.lost(problem);
  }

  private forgetWords(): void {
    const words = [...this.waitingForWord.values()];
    this.waitingForWord.clear();
    for (const tell of words) tell(lost("The connection broke.", "Whether it was heard shows in what follows."));
  }

  private newRef(kind: string): string {
    this.count += 1;
    return `${kind}-${this.count}`;
  }
}

function lost(message: string, hint: string): Problem {
  return { code: OWN_CODES.lost, message, hint, status: 0 };
}
