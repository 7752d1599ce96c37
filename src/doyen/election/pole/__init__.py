"""Elections by application scores, with a quorum.  [POLE]"""
