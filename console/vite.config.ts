import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** The gateway that the development server and the preview server proxy to. */
const gateway = process.env["FERRULE_GATEWAY"] ?? "http://127.0.0.1:8000";

const proxy = {
  // The gateway accepts only pages of its own origin, so the proxy sets `Host` and `Origin` to the gateway's.
  "^/(v1|metrics|healthz|readyz|openapi\\.json)": {
    target: gateway,
    changeOrigin: true,
    ws: true,
    headers: { origin: new URL(gateway).origin },
  },
};

export default defineConfig({
  base: "/console/",
  build: {
    outDir: fileURLToPath(new URL("../src/ferrule/server/console/static", import.meta.url)),
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    // The content security policy forbids inline scripts: index.html may only link to hashed files.
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: { proxy, strictPort: true },
  preview: { proxy, strictPort: true },
  // No bound in seconds: a busy machine is ten times slower than a quiet one. The limit only ends a test that hangs.
  test: { include: ["tests/**/*.test.ts"], environment: "node", testTimeout: 600_000 },
});
