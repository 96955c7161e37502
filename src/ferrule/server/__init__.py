"""The service: any engine behind the APIs that clients already speak. Nothing here decides what a call may be."""
