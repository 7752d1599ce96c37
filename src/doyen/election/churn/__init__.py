"""Churn-tolerant elections: base, optimistic, preferred, hybrid.  [CTOL]"""
