"""Vision-language-action policies: from an instruction's bytes, images and proprioception to chunks of actions."""
