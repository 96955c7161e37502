"""What `ferrule bench` needs: BFCL's questions and scores, valid replies counted, the cost of the constraint."""
