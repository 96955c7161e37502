import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** The gateway that the development server and the preview stand in front of. */
const gateway = process.env["FERRULE_GATEWAY"] ?? "http://127.0.0.1:8000";

const proxy = {
  // The gateway admits pages of its own origin only, so both names are made to agree.
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
    // It is an inline-free page: nothing may be put into index.html but links to hashed files.
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: { proxy, strictPort: true },
  preview: { proxy, strictPort: true },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
});
