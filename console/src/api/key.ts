/** The key that a person typed in. It lives in this variable and nowhere else: a reload forgets it. */

import { signal } from "@preact/signals";

export const key = signal("");

const PROTOCOL = "ferrule.v1";

/** A browser cannot set headers on a WebSocket, so the key travels as a subprotocol, which no log holds. */
export function protocols(secret: string): string[] {
  return secret ? [PROTOCOL, `ferrule.key.${base64url(secret)}`] : [];
}

export function base64url(text: string): string {
  const bytes = new TextEncoder().encode(text);
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
