"""BFCL v4, single turn: sends the official questions to an engine and scores its calls as the official scorer does."""
