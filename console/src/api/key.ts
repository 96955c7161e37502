/** The API key that the user entered. It is held in this variable only: reloading the page discards it. */

import { signal } from "@preact/signals";

export const key = signal("");

const PROTOCOL = "ferrule.v1";

/** A browser cannot set headers on a WebSocket, so the key is sent as a subprotocol. The gateway does not log it. */
export function protocols(secret: string): string[] {
  return secret ? [PROTOCOL, `ferrule.key.${base64url(secret)}`] : [];
}

export function base64url(text: string): string {
  const bytes = new TextEncoder().encode(text);
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
