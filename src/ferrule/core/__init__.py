"""Values that every room shares: frozen, slotted, without IO. They know nothing of formats, engines or transports."""
