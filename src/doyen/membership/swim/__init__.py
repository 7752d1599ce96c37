"""SWIM, split by concept: probing, suspicion, dissemination, anti-entropy, local health; `machine` joins them."""
