// Stands in for the gateway's socket, in the page itself, so that only drawing is measured: frames come at a fixed rate
// by the clock, however long drawing takes.
(() => {
  const [RATE, SECONDS] = [1000, 4];
  const seen = { sent: 0, doneAt: 0, pictures: 0 };
  window.measured = seen;
  class FakeSocket {
    constructor() {
      setTimeout(() => this.onopen?.(), 5);
    }
    close() {}
    send(text) {
      const asked = JSON.parse(text);
      if (asked.type !== "ask") return;
      let seq = 0;
      const say = (frame) => this.onmessage?.({ data: JSON.stringify({ turn: asked.ref, seq: ++seq, ...frame }) });
      say({ type: "started", ref: asked.ref, runs: "gateway", model: "smol" });
      const began = performance.now();
      const total = RATE * SECONDS;
      const tick = () => {
        const due = Math.min(total, Math.floor(((performance.now() - began) / 1000) * RATE));
        for (; seen.sent < due; seen.sent += 1) say(delta(seen.sent, total));
        if (seen.sent < total) return void setTimeout(tick, 4);
        say({ type: "done", finish_reason: "stop" });
        seen.doneAt = performance.now();
      };
      tick();
    }
  }
  // Half of it prose, then reasoning, then a call whose one argument grows.
  const delta = (at, total) => {
    const word = at % 97 === 96 ? "\n\n" : `word${at} `;
    if (at < total / 2) return { type: "token", text: word };
    if (at < (total * 3) / 4) return { type: "reasoning", text: word };
    const call = { type: "tool_call_delta", id: "c", name: "note" };
    return { ...call, arguments: at === (total * 3) / 4 ? '{"text": "' : `word${at} ` };
  };
  const draw = () => {
    if (seen.sent > 0 && seen.doneAt === 0) seen.pictures += 1;
    requestAnimationFrame(draw);
  };
  requestAnimationFrame(draw);
  window.WebSocket = FakeSocket;
})();
