"""Values that all packages share: frozen, slotted, without IO, independent of formats, engines and transports."""
