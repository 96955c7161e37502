"""BFCL v4, single turn: asks an engine the official questions and scores its calls as the official scorer does."""
