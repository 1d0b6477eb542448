pub mod bitcast;
pub mod plan;
pub mod read;
pub mod steps;
pub mod window;
pub mod write;

#[cfg(test)]
mod oracle;
