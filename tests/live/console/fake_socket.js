// Replaces the page's WebSocket, so that a test measures only rendering: frames arrive at a fixed rate, however long
// rendering takes.
(() => {
  const [RATE, SECONDS] = [1000, 4];
  const stats = { sent: 0, doneAt: 0, paints: 0 };
  window.stats = stats;
  class FakeSocket {
    constructor() {
      setTimeout(() => this.onopen?.(), 5);
    }
    close() {}
    send(text) {
      const request = JSON.parse(text);
      if (request.type !== "ask") return;
      let seq = 0;
      const emit = (frame) => this.onmessage?.({ data: JSON.stringify({ turn: request.ref, seq: ++seq, ...frame }) });
      emit({ type: "started", ref: request.ref, runs: "gateway", model: "smol" });
      const startedAt = performance.now();
      const total = RATE * SECONDS;
      const tick = () => {
        const due = Math.min(total, Math.floor(((performance.now() - startedAt) / 1000) * RATE));
        for (; stats.sent < due; stats.sent += 1) emit(delta(stats.sent, total));
        if (stats.sent < total) return void setTimeout(tick, 4);
        emit({ type: "done", finish_reason: "stop" });
        stats.doneAt = performance.now();
      };
      tick();
    }
  }
  // Half of the frames are text, then reasoning, then a call with one growing argument.
  const delta = (at, total) => {
    const word = at % 97 === 96 ? "\n\n" : `word${at} `;
    if (at < total / 2) return { type: "token", text: word };
    if (at < (total * 3) / 4) return { type: "reasoning", text: word };
    const call = { type: "tool_call_delta", id: "c", name: "note" };
    return { ...call, arguments: at === (total * 3) / 4 ? '{"text": "' : `word${at} ` };
  };
  const countPaint = () => {
    if (stats.sent > 0 && stats.doneAt === 0) stats.paints += 1;
    requestAnimationFrame(countPaint);
  };
  requestAnimationFrame(countPaint);
  window.WebSocket = FakeSocket;
})();
