/**
 * Stream: runs turns over one WebSocket. It reconnects by itself and resumes each turn after its last received frame.
 *
 * It knows nothing of the page, and of frames only their order. The socket and the clock are injected, for tests.
 */

import { parseFrame, type ChatRequest, type ClientFrame, type ErrorFrame, type Frame } from "./frames";
import { CLIENT_CODES, type Problem } from "./result";
import type { JsonObject } from "./types";

export type ConnectionState = "idle" | "connecting" | "open" | "waiting";

export interface Listener {
  /** Receives each frame of the turn once, in order. */
  onFrame(frame: Frame): void;
  /** The turn can no longer be followed. No frame comes after this call. */
  onLost(problem: Problem): void;
}

export interface SocketLike {
  send(text: string): void;
  close(): void;
}

export interface SocketEvents {
  onOpen(): void;
  onMessage(text: string): void;
  onClose(): void;
}

export interface Environment {
  /** Opens a connection. Its events come later, never before this function returns. */
  connect(events: SocketEvents): SocketLike;
  setTimer(milliseconds: number, run: () => void): void;
  now(): number;
  onStateChange(state: ConnectionState): void;
}

/** The caller's handle of a turn. */
export interface TurnHandle {
  readonly ref: string;
  cancel(): void;
}

interface ActiveTurn {
  readonly ref: string;
  readonly listener: Listener;
  readonly body: ChatRequest;
  id: string;
  seq: number;
  isSent: boolean;
  isCancelled: boolean;
}

const FIRST_RETRY_DELAY = 400;
const MAX_RETRY_DELAY = 8_000;
/** How long a gateway keeps a turn without a reader, by default. */
const GIVE_UP_AFTER = 120_000;
const FINAL_TYPES = new Set(["done", "error"]);

export class Stream {
  private socket: SocketLike | null = null;
  private isOpen = false;
  private turns: ActiveTurn[] = [];
  private confirmations = new Map<string, (problem: Problem) => void>();
  private unsent: ClientFrame[] = [];
  private count = 0;
  private attempts = 0;
  private lostAt = 0;
  private isRetrying = false;

  constructor(private readonly environment: Environment) {}

  sendChat(body: ChatRequest, listener: Listener): TurnHandle {
    const turn: ActiveTurn = {
      ref: this.newRef("ask"),
      listener,
      body,
      id: "",
      seq: 0,
      isSent: false,
      isCancelled: false,
    };
    this.turns.push(turn);
    if (this.isOpen) this.sendRequest(turn);
    else this.open();
    return { ref: turn.ref, cancel: () => this.cancel(turn) };
  }

  /** Sends a decision. `onRefused` is called if the gateway refuses it; otherwise the turn's frames show the outcome. */
  confirm(
    approval: string,
    decision: { approve: boolean; why?: string; arguments?: JsonObject },
    onRefused: (problem: Problem) => void,
  ): void {
    if (!this.isOpen) {
      onRefused(connectionLost("There is no connection to the gateway.", "Try again when the connection is back."));
      return;
    }
    const ref = this.newRef("confirm");
    this.confirmations.set(ref, onRefused);
    this.send({ type: "confirm", approval, ...decision, ref });
  }

  /** Drops every turn. For when the key changes or the page closes. */
  close(): void {
    const socket = this.socket;
    this.turns = [];
    this.failConfirmations();
    this.unsent = [];
    this.socket = null;
    this.isOpen = false;
    this.environment.onStateChange("idle");
    socket?.close();
  }

  private cancel(turn: ActiveTurn): void {
    if (!this.turns.includes(turn)) return;
    turn.isCancelled = true;
    if (turn.id) this.send({ type: "cancel", turn: turn.id, ref: this.newRef("cancel") });
    else if (!turn.isSent) this.drop(turn, { code: "cancelled", message: "Stopped.", hint: "", status: 0 });
  }

  private send(frame: ClientFrame): void {
    if (this.isOpen && this.socket) this.socket.send(JSON.stringify(frame));
    else {
      this.unsent.push(frame);
      this.open();
    }
  }

  private sendRequest(turn: ActiveTurn): void {
    turn.isSent = true;
    this.send({ type: "ask", body: turn.body, api: "openai", ref: turn.ref });
  }

  private open(): void {
    if (this.socket || this.isRetrying) return;
    this.environment.onStateChange("connecting");
    // An abandoned connection may still deliver events; ignore them.
    const isCurrent = (): boolean => socket === this.socket;
    const socket = this.environment.connect({
      onOpen: () => isCurrent() && this.handleOpen(),
      onMessage: (text) => isCurrent() && this.handleMessage(text),
      onClose: () => isCurrent() && this.handleClose(),
    });
    this.socket = socket;
  }

  private handleOpen(): void {
    this.isOpen = true;
    this.attempts = 0;
    this.lostAt = 0;
    this.environment.onStateChange("open");
    for (const turn of this.turns) {
      if (turn.id) this.resume(turn);
      else if (!turn.isSent) this.sendRequest(turn);
    }
    const unsent = this.unsent;
    this.unsent = [];
    for (const frame of unsent) this.send(frame);
  }

  private handleClose(): void {
    const wasOpen = this.isOpen;
    this.socket = null;
    this.isOpen = false;
    // The gateway may or may not have received these requests. Sending them again could run a tool twice.
    for (const turn of this.turns.filter((turn) => turn.isSent && !turn.id)) {
      const hint = "The gateway may have received the message: see Traces.";
      this.drop(turn, connectionLost("The connection was lost before the reply began.", hint));
    }
    this.failConfirmations();
    if (wasOpen || !this.lostAt) this.lostAt = this.environment.now();
    if (this.turns.length === 0) {
      this.unsent = [];
      this.lostAt = 0;
      this.attempts = 0;
      this.environment.onStateChange("idle");
      return;
    }
    if (this.environment.now() - this.lostAt > GIVE_UP_AFTER) {
      for (const turn of [...this.turns]) {
        this.drop(turn, connectionLost("The gateway cannot be reached.", "The ledger has recorded what ran: see Traces."));
      }
      this.unsent = [];
      this.environment.onStateChange("idle");
      return;
    }
    this.isRetrying = true;
    this.environment.onStateChange("waiting");
    const delay = Math.min(FIRST_RETRY_DELAY * 2 ** this.attempts, MAX_RETRY_DELAY);
    this.attempts += 1;
    this.environment.setTimer(delay, () => {
      this.isRetrying = false;
      if (this.turns.length > 0) this.open();
      else this.environment.onStateChange("idle");
    });
  }

  private resume(turn: ActiveTurn): void {
    this.send({ type: "resume", turn: turn.id, after: turn.seq, ref: turn.ref });
  }

  private handleMessage(text: string): void {
    const frame = parseFrame(text);
    if (frame === null || frame.type === "keep_alive") return;
    if (frame.turn === "") {
      if (frame.type === "error") this.handleRefusal(frame);
      return;
    }
    const turn = this.turnOf(frame);
    if (!turn || frame.seq <= turn.seq) return;
    if (frame.seq > turn.seq + 1) {
      this.resume(turn);
      return;
    }
    turn.seq = frame.seq;
    if (FINAL_TYPES.has(frame.type)) this.turns = this.turns.filter((other) => other !== turn);
    turn.listener.onFrame(frame);
    // A turn that was cancelled before the gateway sent its id can be cancelled only now.
    if (frame.type === "started" && turn.isCancelled) this.cancel(turn);
  }

  private turnOf(frame: Frame): ActiveTurn | undefined {
    if (frame.type === "started" && frame.ref) {
      const turn = this.turns.find((turn) => turn.ref === frame.ref && !turn.id);
      if (turn) turn.id = frame.turn;
    }
    return this.turns.find((turn) => turn.id === frame.turn);
  }

  /** Handles an error outside of any turn: the gateway refused a frame of ours. */
  private handleRefusal(frame: ErrorFrame): void {
    const problem: Problem = { code: frame.code, message: frame.message, hint: frame.hint ?? "", status: 0 };
    const callback = this.confirmations.get(frame.ref ?? "");
    if (callback) {
      this.confirmations.delete(frame.ref ?? "");
      callback(problem);
      return;
    }
    const turn = this.turns.find((turn) => turn.ref === frame.ref);
    if (turn) this.drop(turn, problem);
    else if (frame.code === "turn_taken" && this.turns.length === 1) this.drop(this.turns[0]!, problem);
  }

  private drop(turn: ActiveTurn, problem: Problem): void {
    this.turns = this.turns.filter((other) => other !== turn);
    turn.listener.onLost(problem);
  }

  private failConfirmations(): void {
    const callbacks = [...this.confirmations.values()];
    this.confirmations.clear();
    for (const refuse of callbacks) {
      refuse(connectionLost("The connection was lost.", "The next frames show whether the decision was received."));
    }
  }

  private newRef(kind: string): string {
    this.count += 1;
    return `${kind}-${this.count}`;
  }
}

function connectionLost(message: string, hint: string): Problem {
  return { code: CLIENT_CODES.connectionLost, message, hint, status: 0 };
}
